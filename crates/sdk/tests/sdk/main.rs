//! Tests of the SDK as its users see it, in one program so that they are linked once.

mod macros;
