//! Maps given as numbers, and mapping ids.

use super::super::{MAX_IDS, TokenMap};
use crate::Error;
use crate::error::Place;
use crate::ids::Ints;

#[test]
fn identity_changes_nothing() {
    let map = TokenMap::identity(5).unwrap();
    assert_eq!(map.lookup(), [0, 1, 2, 3, 4]);
    assert_eq!((map.size(), map.len()), (5, 5));
    assert_eq!(map.compress(&Ints::new(&[4i64, 0, 3], 1, 3).unwrap(), &[3]).unwrap(), [4, 0, 3]);
    assert!(TokenMap::identity(0).is_err());
    assert!(TokenMap::identity(MAX_IDS + 1).is_err());
}

#[test]
fn a_look_up_may_have_gaps_but_no_negative_or_too_large_entry() {
    let map = TokenMap::from_lookup(&[7i32, 0, 7]).unwrap();
    assert_eq!((map.size(), map.len()), (8, 3));
    assert_eq!(TokenMap::from_lookup(&[i64::from(i32::MAX)]).unwrap().size(), 1 << 31);
    for bad in [-1, i64::from(i32::MAX) + 1, i64::MIN] {
        let message = TokenMap::from_lookup(&[0, bad]).unwrap_err().to_string();
        assert!(message.contains(&format!("{bad} at position 1")), "{message}");
    }
    assert!(TokenMap::from_lookup::<i64>(&[]).is_err());
}

#[test]
fn the_digest_is_of_length_and_content() {
    use sha2::{Digest, Sha256};
    let values: Vec<i32> = (0..3000).map(|i| i * 7 % 1001).collect();
    let mut bytes = 3000u32.to_le_bytes().to_vec();
    values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    let expected: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(TokenMap::from_lookup(&values).unwrap().digest(), expected);
}

#[test]
fn an_id_outside_is_named_with_its_place() {
    let map = TokenMap::identity(151669).unwrap();
    let mut ids = vec![0i64; 80];
    ids[3 * 20 + 17] = 151936;
    let error = map.compress(&Ints::new(&ids, 4, 20).unwrap(), &[4, 20]).unwrap_err();
    assert!(matches!(error, Error::TokenId { .. }));
    assert_eq!(error.to_string(), "token id 151936 at row 3, column 17 is outside the token map of 151669 ids");
    let one = |ids: Ints| map.compress(&ids, &[1]).unwrap_err().to_string();
    assert!(one(Ints::new(&[-1i64], 1, 1).unwrap()).contains("token id -1 at position 0"));
    assert!(one(Ints::new(&[u64::MAX], 1, 1).unwrap()).contains("18446744073709551615"));
}

#[test]
fn ids_of_every_shape_come_back_in_row_major_order() {
    let map = TokenMap::from_lookup(&(0..3000).rev().collect::<Vec<i32>>()).unwrap();
    let ids: Vec<u16> = (0..2100).collect();
    let expected: Vec<i32> = ids.iter().map(|&id| 2999 - i32::from(id)).collect();
    for (rows, cols) in [(1, 2100), (3, 700), (2100, 1), (100, 21)] {
        assert_eq!(map.compress(&Ints::new(&ids, rows, cols).unwrap(), &[rows, cols]).unwrap(), expected);
    }
    assert!(map.compress(&Ints::new::<i64>(&[], 0, 5).unwrap(), &[0, 5]).unwrap().is_empty());
}

#[test]
fn places_read_as_people_write_them() {
    assert_eq!(Place::of(&[], 0).to_string(), "position 0");
    assert_eq!(Place::of(&[9], 4).to_string(), "position 4");
    assert_eq!(Place::of(&[2, 3], 5).to_string(), "row 1, column 2");
    assert_eq!(Place::of(&[2, 3, 4], 23).to_string(), "index [1, 2, 3]");
}
