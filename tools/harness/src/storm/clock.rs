//! Wall clocks of nodes that are wrong and jump, while the machine's own clock is left alone.
//!
//! A library is loaded before the C library and adds a number of seconds from a file to the wall clock; other clocks are as they
//! are. It is compiled here with the C compiler that building the server needs anyway.

use std::{
    ffi::OsString,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::process;

/// Where the library finds the file.
const FILE: &str = "SEGNO_STORM_CLOCK";

/// The library. The file is mapped, so that a new number is seen with the next look at the clock.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const long *offset;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("SEGNO_STORM_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) abort();
    void *place = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (place == MAP_FAILED) abort();
    close(file);
    offset = place;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset;
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *kept) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (kept) *kept = exact.tv_sec;
    return exact.tv_sec;
}
"#;

/// The compiled library.
pub struct Shim(PathBuf);

impl Shim {
    /// Compiles it in a folder of this name.
    pub fn build(name: &str) -> Result<Self> {
        let folder = process::fresh_dir(name)?;
        let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
        fs::write(&source, SOURCE)?;
        let compiler = std::env::var_os("CC").unwrap_or_else(|| OsString::from("cc"));
        let mut compile = Command::new(compiler);
        let done = compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).output();
        let done = done.context("the storm needs a C compiler, as building the server does (CC names another one)")?;
        if !done.status.success() {
            bail!("the library that moves clocks was not compiled: {}", String::from_utf8_lossy(&done.stderr));
        }
        Ok(Self(library))
    }

    /// What a process needs in its environment.
    pub fn environment(&self, clock: &Clock) -> [(String, String); 2] {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        [("LD_PRELOAD".to_owned(), text(&self.0)), (FILE.to_owned(), text(&clock.path))]
    }
}

/// The clock of one node.
pub struct Clock {
    path: PathBuf,
    file: File,
}

impl Clock {
    /// A clock that is right.
    pub fn new(path: PathBuf) -> Result<Self> {
        let file = File::create(&path)?;
        let clock = Self { path, file };
        clock.set(0)?;
        Ok(clock)
    }

    /// From now on it is wrong by so many seconds.
    pub fn set(&self, seconds: i64) -> Result<()> {
        Ok(self.file.write_all_at(&seconds.to_ne_bytes(), 0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_sees_the_wrong_time() {
        // Not the folder of a storm: one may be under way.
        let shim = Shim::build("storm-clock-test").unwrap();
        let clock = Clock::new(shim.0.with_extension("offset")).unwrap();
        let time = || {
            let done = Command::new("date").arg("+%s").envs(shim.environment(&clock)).output().unwrap();
            String::from_utf8(done.stdout).unwrap().trim().parse::<i64>().unwrap()
        };
        let right = time();
        clock.set(-3_600).unwrap();
        assert!((time() - right + 3_600).abs() < 60);
    }
}
