"""`Background`: every call once, in order, by whoever comes first; errors come out of `wait`."""

import threading

import pytest
from engram_fast.data.background import Background


def test_calls_are_made_once_and_in_order():
    made = []
    with Background() as background:
        for number in range(2000):
            background.start(lambda number=number: made.append(number))
            background.wait()
    assert made == list(range(2000))


def test_a_call_that_the_thread_has_not_begun_is_made_by_who_waits():
    background = Background()  # its thread is not running
    threads = []
    background.start(lambda: threads.append(threading.current_thread()))
    background.wait()
    assert threads == [threading.current_thread()]


def test_a_call_that_the_thread_has_begun_is_waited_for():
    begun, go_on, threads = threading.Event(), threading.Event(), []

    def work():
        begun.set()
        go_on.wait(30)
        threads.append(threading.current_thread())

    with Background() as background:
        background.start(work)
        assert begun.wait(30)
        threading.Timer(0.05, go_on.set).start()
        background.wait()
        assert len(threads) == 1
        assert threads[0] is not threading.current_thread()


@pytest.mark.parametrize("running", [False, True])
def test_an_error_comes_out_of_wait(running):
    background = Background()
    if running:
        background.__enter__()
    background.start(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        background.wait()
    background.start(lambda: None)
    background.wait()
    if running:
        background.__exit__()
