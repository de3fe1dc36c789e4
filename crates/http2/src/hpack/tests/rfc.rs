//! The examples of RFC 7541, appendix C, and codes of its appendix B.

use super::super::Decoder;
use super::{decode, encoder, hex, lines};

/// Decodes blocks one after another; each with its fields and the table's size after it.
fn check(table_bytes_max: usize, blocks: &[(&str, &[&str], usize)]) {
    let mut decoder = Decoder::new(table_bytes_max);
    for (block, fields, table_bytes) in blocks {
        let decoded = decode(&mut decoder, &hex(block)).unwrap();
        assert_eq!(lines(&decoded), *fields);
        assert_eq!(decoder.table.bytes(), *table_bytes, "{block}");
    }
}

#[test]
fn c1_integers() {
    for (number, prefix_bits, coded) in [(10, 5, "0a"), (1337, 5, "1f 9a 0a"), (42, 8, "2a")] {
        let mut block = Vec::new();
        encoder::integer(&mut block, 0, prefix_bits, number);
        assert_eq!(block, hex(coded));
        if prefix_bits < 8 {
            let mut rest = block.as_slice();
            assert_eq!(super::super::integer(&mut rest, prefix_bits), Ok(number));
            assert!(rest.is_empty());
        }
    }
}

#[test]
fn c2_fields() {
    let custom = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
    check(4096, &[(custom, &["custom-key: custom-header"], 55)]);
    check(4096, &[("040c 2f73 616d 706c 652f 7061 7468", &[":path: /sample/path"], 0)]);
    check(4096, &[("1008 7061 7373 776f 7264 0673 6563 7265 74", &["password: secret"], 0)]);
    check(4096, &[("82", &[":method: GET"], 0)]);
}

const REQUESTS: [&[&str]; 3] = [
    &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"],
    &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com", "cache-control: no-cache"],
    &[
        ":method: GET",
        ":scheme: https",
        ":path: /index.html",
        ":authority: www.example.com",
        "custom-key: custom-value",
    ],
];

#[test]
fn c3_requests() {
    check(
        4096,
        &[
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", REQUESTS[0], 57),
            ("8286 84be 5808 6e6f 2d63 6163 6865", REQUESTS[1], 110),
            ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", REQUESTS[2], 164),
        ],
    );
}

#[test]
fn c4_requests_with_huffman() {
    check(
        4096,
        &[
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", REQUESTS[0], 57),
            ("8286 84be 5886 a8eb 1064 9cbf", REQUESTS[1], 110),
            ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", REQUESTS[2], 164),
        ],
    );
}

const RESPONSES: [&[&str]; 3] = [
    &[
        ":status: 302",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:21 GMT",
        "location: https://www.example.com",
    ],
    &[
        ":status: 307",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:21 GMT",
        "location: https://www.example.com",
    ],
    &[
        ":status: 200",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:22 GMT",
        "location: https://www.example.com",
        "content-encoding: gzip",
        "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
    ],
];

#[test]
fn c5_responses_with_evictions() {
    check(
        256,
        &[
            (
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 \
                 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                RESPONSES[0],
                222,
            ),
            ("4803 3330 37c1 c0bf", RESPONSES[1], 222),
            (
                "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 \
                 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 \
                 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
                RESPONSES[2],
                215,
            ),
        ],
    );
}

#[test]
fn c6_responses_with_huffman_and_evictions() {
    check(
        256,
        &[
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad \
                 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                RESPONSES[0],
                222,
            ),
            ("4883 640e ffc1 c0bf", RESPONSES[1], 222),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 \
                 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
                RESPONSES[2],
                215,
            ),
        ],
    );
}

#[test]
fn codes_are_those_of_appendix_b() {
    let codes = [
        (b'0', 0x0, 5),
        (b't', 0x9, 5),
        (b' ', 0x14, 6),
        (b'u', 0x2d, 6),
        (b':', 0x5c, 7),
        (b'z', 0x7b, 7),
        (b'&', 0xf8, 8),
        (b'Z', 0xfd, 8),
        (b'!', 0x3f8, 10),
        (b'|', 0x7fc, 11),
        (b'>', 0xffb, 12),
        (0, 0x1ff8, 13),
        (b'~', 0x1ffd, 13),
        (b'}', 0x3ffd, 14),
        (b'{', 0x7ffe, 15),
        (b'\\', 0x7fff0, 19),
        (226, 0xfffed, 20),
        (230, 0x1fffe8, 21),
        (233, 0x3fffeb, 22),
        (1, 0x7fffd8, 23),
        (239, 0x7ffff4, 23),
        (9, 0xffffea, 24),
        (235, 0x1ffffef, 25),
        (255, 0x3ffffee, 26),
        (254, 0x7fffff0, 27),
        (2, 0xfffffe2, 28),
        (249, 0xffffffe, 28),
        (10, 0x3ffffffc, 30),
        (22, 0x3ffffffe, 30),
    ];
    for (byte, code, bits) in codes {
        assert_eq!(encoder::code(byte), (code, bits), "{byte}");
    }
    let coded = encoder::packed(&encoder::huffman_bits(b"www.example.com"));
    assert_eq!(coded, hex("f1e3 c2e5 f23a 6ba0 ab90 f4ff"));
}
