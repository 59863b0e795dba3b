//! The file: the same map comes back, and nothing damaged is taken or makes the reader panic.

use super::super::{Metadata, Rule, TokenMap};
use super::map_of;
use crate::Error;

/// Id 5 has the empty key of the holes without being one: nothing but their own checksum tells them apart.
fn example() -> TokenMap {
    let texts = [Some("The"), None, Some("the"), Some(" "), None, Some("")];
    TokenMap::from_pieces(&texts, &texts, "pieces", 1).unwrap()
}

#[test]
fn what_is_saved_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map.safetensors");
    for map in [example(), map_of(&["a", "A", "b"]), TokenMap::identity(100).unwrap()] {
        map.save(&path).unwrap();
        let back = TokenMap::load(&path).unwrap();
        assert_eq!((back.lookup(), back.size(), back.holes()), (map.lookup(), map.size(), map.holes()));
        assert_eq!((back.digest(), back.metadata()), (map.digest(), map.metadata()));
        assert_eq!(back.to_bytes(), std::fs::read(&path).unwrap());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file stays");
}

#[test]
fn equal_maps_are_equal_files() {
    let bytes = example().to_bytes();
    assert!((0..20).all(|_| example().to_bytes() == bytes));
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("is a folder");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("x"), "x").unwrap();
    assert!(matches!(example().save(&path), Err(Error::Io { .. })));
    assert!(matches!(example().save(&folder.path().join("missing/map")), Err(Error::Io { .. })));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(matches!(TokenMap::load(&path), Err(Error::File { .. })));
    assert!(matches!(TokenMap::load(&folder.path().join("missing")), Err(Error::Io { .. })));
}

#[test]
fn every_truncation_and_every_flipped_bit_is_noticed() {
    let map = example();
    let bytes = map.to_bytes();
    for length in 0..bytes.len() {
        assert!(TokenMap::from_bytes(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
    }
    assert!(TokenMap::from_bytes(&[&bytes[..], b"\0"].concat()).is_err());
    for index in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[index] ^= 1 << bit;
            // Free text (source, versions) and padding are not under the digest; all else is.
            if let Ok(read) = TokenMap::from_bytes(&damaged) {
                assert_eq!((read.lookup(), read.size(), read.holes()), (map.lookup(), map.size(), map.holes()));
            }
        }
    }
}

#[test]
fn a_huge_header_length_is_refused() {
    let bytes = example().to_bytes();
    for claim in [u64::MAX, 1 << 63, 1 << 40, 1 << 20, bytes.len() as u64 - 7, 0] {
        let mut lying = bytes.clone();
        lying[..8].copy_from_slice(&claim.to_le_bytes());
        assert!(TokenMap::from_bytes(&lying).is_err(), "{claim}");
    }
}

#[test]
fn a_header_that_lies_is_refused_by_the_field_that_lies() {
    let bytes = example().to_bytes();
    let edit = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let position = bytes.windows(from.len()).position(|window| window == from.as_bytes()).expect(from);
        let mut edited = bytes.clone();
        edited[position..position + to.len()].copy_from_slice(to.as_bytes());
        TokenMap::from_bytes(&edited).expect_err(from).to_string()
    };
    for (from, to, named) in [
        ("engram-fast-token-map", "engram-fast-token-mop", "format"),
        ("\"version\":\"1\"", "\"version\":\"2\"", "version"),
        ("\"size\":\"3\"", "\"size\":\"4\"", "size"),
        ("\"length\":\"6\"", "\"length\":\"7\"", "length"),
        ("normalized-text", "normalized-teXt", "rule"),
        ("\"I32\"", "\"F32\"", "I32"),
        ("\"shape\":[6]", "\"shape\":[4]", "safetensors"),
        ("\"holes\"", "\"holez\"", "holes"),
        ("\"digest\"", "\"digesT\"", "digest"),
    ] {
        let message = edit(from, to);
        assert!(message.contains(named), "{from}: {message}");
    }
}

#[test]
fn holes_must_be_ascending_inside_and_alike() {
    let metadata = || Metadata::new(Rule::None, "lookup", None);
    assert!(TokenMap::from_parts(vec![0, 1, 1], vec![1, 2], metadata()).is_ok());
    for holes in [vec![2, 1], vec![1, 1], vec![3], vec![-1], vec![0, 1]] {
        let error = TokenMap::from_parts(vec![0, 1, 1], holes, metadata()).unwrap_err();
        assert!(matches!(error, Error::TokenMap { field, .. } if field == "holes"));
    }
}

#[test]
fn a_folder_that_is_missing_is_told_by_the_system_s_own_number() {
    let folder = tempfile::tempdir().unwrap();
    match example().save(&folder.path().join("missing/map")) {
        Err(Error::Io { path, source }) => {
            assert!(path.ends_with("missing/map"));
            assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
            assert!(source.raw_os_error().is_some());
        }
        other => panic!("{other:?}"),
    }
}
