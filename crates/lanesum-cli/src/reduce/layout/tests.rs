//! Windows cover each byte of the output once, in order, for every rank alike.

use proptest::prelude::*;

use super::*;

fn header(tensors: &[(&str, Dtype, &[u64])]) -> Header {
    let mut end = 0;
    let entries: Vec<String> = tensors
        .iter()
        .map(|(name, dtype, shape)| {
            let begin = end;
            end += shape.iter().product::<u64>() * dtype.size() as u64;
            let dtype = dtype.name().to_uppercase();
            format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#)
        })
        .collect();
    let json = format!("{{{}}}", entries.join(","));
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    Header::parse(&bytes, bytes.len() as u64 + end).expect("is whole")
}

fn difference(first: &Header, second: &Header) -> String {
    let difference = spans(first, second).expect_err("they differ");
    difference.told(Path::new("x"), Path::new("y"))
}

#[test]
fn the_first_difference_is_told_with_what_each_has() {
    let first = header(&[
        ("a", Dtype::F32, &[2]),
        ("b", Dtype::F16, &[2, 3]),
        ("c", Dtype::F16, &[]),
    ]);
    for (second, wanted) in [
        (
            header(&[
                ("c", Dtype::F16, &[1]),
                ("b", Dtype::F16, &[3, 2]),
                ("a", Dtype::F32, &[2]),
            ]),
            "tensor \"b\" is F16 [2, 3] in x, and F16 [3, 2] in y",
        ),
        (
            header(&[("a", Dtype::F32, &[2]), ("b", Dtype::Bf16, &[2, 3])]),
            "tensor \"b\" is F16 [2, 3] in x, and BF16 [2, 3] in y",
        ),
        (
            header(&[
                ("a", Dtype::F32, &[2]),
                ("b", Dtype::F16, &[2, 3]),
                ("d", Dtype::F16, &[]),
            ]),
            "tensor \"c\" is in x (F16 []), and not in y",
        ),
        (
            header(&[
                ("a", Dtype::F32, &[2]),
                ("d", Dtype::F32, &[0]),
                ("b", Dtype::F16, &[2, 3]),
                ("c", Dtype::F16, &[]),
            ]),
            "tensor \"d\" is in y (F32 [0]), and not in x",
        ),
    ] {
        assert_eq!(difference(&first, &second), wanted);
    }
}

#[test]
fn spans_follow_the_first_file_wherever_the_own_one_has_them() {
    let first = header(&[("a", Dtype::F32, &[2]), ("b", Dtype::F16, &[3])]);
    let own = header(&[("b", Dtype::F16, &[3]), ("a", Dtype::F32, &[2])]);
    let span = |dtype, from, bytes| Span {
        dtype,
        from: own.data + from,
        bytes,
    };
    assert_eq!(
        spans(&first, &own).expect("fit"),
        [span(Dtype::F32, 6, 8), span(Dtype::F16, 0, 6)]
    );
}

#[test]
fn small_neighbours_of_a_dtype_are_one_window_and_one_read() {
    let span = |dtype, from, bytes| Span { dtype, from, bytes };
    let spans = [
        span(Dtype::F32, 100, 8),
        span(Dtype::F16, 7, 0),
        span(Dtype::F32, 108, 4),
        span(Dtype::F32, 50, 8),
        span(Dtype::F16, 200, 6),
    ];
    let windows: Vec<Window> = windows(&spans, 1000, 16).collect();
    let piece = |from, bytes| Piece { from, bytes };
    let window = |dtype, at, bytes, pieces| Window {
        dtype,
        at,
        bytes,
        pieces,
    };
    assert_eq!(
        windows,
        [
            window(Dtype::F32, 1000, 16, vec![piece(100, 12), piece(50, 4)]),
            window(Dtype::F32, 1016, 4, vec![piece(54, 4)]),
            window(Dtype::F16, 1020, 6, vec![piece(200, 6)]),
        ]
    );
}

proptest! {
    #[test]
    fn every_byte_is_in_one_window_in_order(
        lengths in prop::collection::vec((0..3_usize, 0..40_u64, 0..1000_u64), 0..12),
        at in 0..10_000_u64,
        limit in 1..20_usize,
    ) {
        let spans: Vec<Span> = lengths
            .iter()
            .map(|&(dtype, elements, from)| {
                let dtype = Dtype::ALL[dtype];
                Span { dtype, from, bytes: elements * dtype.size() as u64 }
            })
            .collect();
        let limit = limit * 4;
        // Each byte as (its dtype, its place in the rank's file).
        let bytes = |dtype: Dtype, from: u64, bytes: u64| (from..from + bytes).map(move |place| (dtype, place));
        let wanted: Vec<_> = spans.iter().flat_map(|span| bytes(span.dtype, span.from, span.bytes)).collect();
        let mut found = Vec::new();
        for window in windows(&spans, at, limit) {
            prop_assert!((1..=limit).contains(&window.bytes) && window.bytes.is_multiple_of(window.dtype.size()));
            prop_assert_eq!(window.at, at + found.len() as u64);
            prop_assert_eq!(window.bytes, window.pieces.iter().map(|piece| piece.bytes).sum::<usize>());
            found.extend(window.pieces.iter().flat_map(|piece| bytes(window.dtype, piece.from, piece.bytes as u64)));
        }
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn each_byte_of_a_window_is_written_by_one_rank(at in 0..20_000_u64, bytes in 1..100_000_usize, world in 2..=16_usize) {
        let window = Window { dtype: Dtype::F32, at, bytes, pieces: vec![] };
        let mut end = 0;
        for rank in 0..world {
            let share = window.share(rank, world);
            prop_assert_eq!(share.start, end);
            prop_assert!(share.end == bytes || (at + share.end as u64).is_multiple_of(PAGE) || share.end == 0);
            end = share.end;
        }
        prop_assert_eq!(end, bytes);
    }
}
