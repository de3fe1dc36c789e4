//! Workers: programs that execute workflows and tasks.
