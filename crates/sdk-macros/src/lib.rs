//! The attributes of segno-sdk.
