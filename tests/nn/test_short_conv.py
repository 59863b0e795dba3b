"""The short convolution: causal, of the right length, deaf across documents, the same in any split."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra `torch`)")
import torch.nn.functional as F  # noqa: E402
from engram_fast.nn import ShortConv  # noqa: E402
from engram_fast.nn.documents import look_back_limit  # noqa: E402


@pytest.fixture
def conv() -> ShortConv:
    return ShortConv(hidden_size=2, hc_mult=1, kernel_size=4, dilation=3).eval()


def test_is_the_published_formulation(near) -> None:
    """Norm of each branch, one grouped convolution that is cut at the end, SiLU."""
    module = ShortConv(hidden_size=5, hc_mult=3, kernel_size=4, dilation=2)
    x = torch.randn(2, 13, 3, 5)
    normed = torch.cat([norm(x[:, :, m]) for m, norm in enumerate(module.norms)], -1)
    want = F.silu(module.conv(normed.transpose(1, 2))[..., :13]).transpose(1, 2).reshape(x.shape)
    near(module(x).detach(), want.detach(), 1e-5)


def test_documents_in_a_row_do_not_see_each_other(conv) -> None:
    x = torch.randn(1, 30, 1, 2)
    y = x.clone()
    y[:, 4] += 1.0  # the last token of the first document
    ends, segments = torch.tensor([0, 5, 30], dtype=torch.int32), torch.tensor([[0] * 5 + [1] * 25])
    for where in ({"cu_seqlens": ends}, {"segment_ids": segments}):
        assert torch.equal(conv(x, **where)[:, 5:], conv(y, **where)[:, 5:])
        torch.testing.assert_close(conv(x, **where), torch.cat([conv(x[:, :5]), conv(x[:, 5:])], 1))
    difference = (conv(y) - conv(x)).abs().amax((0, 2, 3))
    assert difference[[4, 7, 10, 13]].gt(0).any()
    assert difference[14:].eq(0).all()


def test_length_is_kept_and_the_future_is_not_read(conv) -> None:
    for length in (0, 1, 2, 3, 9, 10):
        x = torch.randn(2, length, 1, 2)
        assert conv(x).shape == x.shape
    x = torch.randn(1, 12, 1, 2)
    y = x.clone()
    y[:, 8:] = 7.0
    assert torch.equal(conv(x)[:, :8], conv(y)[:, :8])


@pytest.mark.parametrize("sizes", [[1] * 24, [5, 1, 0, 11, 7], [24]])
@pytest.mark.parametrize("cut", [False, True])
@torch.no_grad()
def test_any_split_with_a_state_gives_the_whole(conv, sizes, cut) -> None:
    x = torch.randn(2, 24, 1, 2)
    where = {}
    if cut:
        where = {"segment_ids": torch.randint(0, 4, (2, 24)).sort(1).values, "mask": torch.rand(2, 24) > 0.2}
    state, parts, start = conv.new_state(2), [], 0
    for size in sizes:
        piece = slice(start, start + size)
        parts.append(conv.step(x[:, piece], state, **{name: value[:, piece] for name, value in where.items()}))
        start += size
    torch.testing.assert_close(torch.cat(parts, 1), conv(x, **where))


@torch.no_grad()
def test_states_can_be_chosen_copied_and_reset(conv) -> None:
    x = torch.randn(2, 10, 1, 2)
    state = conv.new_state(2)
    conv.step(x[:, :5], state)
    fork, kept = state.select([1, 0, 1]), state.copy()
    swapped = conv.step(x[[1, 0, 1], 5:], fork)
    torch.testing.assert_close(swapped, conv(x)[[1, 0, 1], 5:])
    state.reset([1])
    torch.testing.assert_close(conv.step(x[:, 5:], state), torch.stack([conv(x)[0, 5:], conv(x[1:, 5:])[0]]))
    torch.testing.assert_close(conv.step(x[:, 5:], kept), conv(x)[:, 5:])


def test_a_state_is_refused_while_gradients_are_wanted(conv) -> None:
    with pytest.raises(RuntimeError, match="no_grad"):
        conv.step(torch.randn(1, 3, 1, 2), conv.new_state(1))


def test_masked_positions_are_not_read_and_give_zero(conv) -> None:
    x, mask = torch.randn(1, 12, 1, 2), torch.ones(1, 12, dtype=torch.bool)
    mask[:, 3:5] = False
    y = x.clone()
    y[:, 3:5] = 99.0
    assert torch.equal(conv(x, mask=mask), conv(y, mask=mask))
    assert conv(x, mask=mask)[:, 3:5].abs().max() == 0


def test_lying_boundaries_are_refused(conv) -> None:
    x = torch.randn(1, 5, 1, 2)
    for ends, words in (([1, 5], "begins"), ([0, 4, 3, 5], "falls"), ([0, 4], "ends with 4"), ([], "begins")):
        with pytest.raises(ValueError, match=words):
            conv(x, cu_seqlens=torch.tensor(ends, dtype=torch.int64))
    with pytest.raises(TypeError, match="integers"):
        conv(x, cu_seqlens=torch.tensor([0.0, 5.0]))
    with pytest.raises(ValueError, match="segment_ids has shape"):
        conv(x, segment_ids=torch.zeros(1, 4))
    with pytest.raises(ValueError, match="both"):
        conv(x, segment_ids=torch.zeros(1, 5), cu_seqlens=torch.tensor([0, 5]))
    with pytest.raises(ValueError, match="flat row"):
        conv(torch.randn(2, 5, 1, 2), cu_seqlens=torch.tensor([0, 5]))
    with pytest.raises(ValueError, match="expected"):
        conv(torch.randn(1, 5, 2, 2))


def test_empty_documents_may_lie_anywhere() -> None:
    limit = look_back_limit(1, 5, cu_seqlens=torch.tensor([0, 0, 2, 2, 5, 5]))
    assert limit[0, 2:].tolist() == [1, 2, 3]


def test_starts_at_zero_when_asked() -> None:
    module = ShortConv(hidden_size=4, hc_mult=2, zero_init=True)
    assert module(torch.randn(1, 5, 2, 4)).abs().max() == 0
    module.reset_parameters()
    assert module.conv.weight.abs().max() == 0
