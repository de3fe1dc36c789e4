//! Small disks for the database, which can be filled for a while.
//!
//! A disk is a tmpfs, and filling it is a new size: what it holds. Mounting needs root. The mounts are in a namespace of this
//! process, so that they are gone with it, however it ends.

use std::{
    ffi::OsStr,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

/// The namespace was entered: this is the process in it.
const ENTERED: &str = "SEGNO_STORM_MOUNTS";
/// How often a disk is filled again when something was written meanwhile.
const ATTEMPTS: usize = 50;

/// Why there can be no small disks here, if so. The folder is used to try it.
pub fn why_not(folder: &Path) -> Option<String> {
    let mut attempt = unshare();
    attempt.args(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(folder);
    match attempt.output() {
        Ok(done) if done.status.success() => None,
        Ok(done) => Some(format!("a tmpfs cannot be mounted: {}", String::from_utf8_lossy(&done.stderr).trim())),
        Err(error) => Some(format!("a tmpfs cannot be mounted: unshare: {error}")),
    }
}

/// Starts this program anew in a mount namespace of its own, unless that has happened.
pub fn enter_namespace() -> Result<()> {
    if std::env::var_os(ENTERED).is_some() {
        return Ok(());
    }
    let mut again = unshare();
    again.arg(std::env::current_exe()?).args(std::env::args_os().skip(1)).env(ENTERED, "1");
    Err(again.exec()).context("unshare")
}

fn unshare() -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "--"]);
    unshare
}

/// A disk; its files are kept or removed by the code that drops it, see [`Disk::keep`].
pub struct Disk {
    path: PathBuf,
    /// Its size unless it is full.
    megabytes: u64,
}

impl Disk {
    /// Mounts an empty one, which belongs to this user and group.
    pub fn mount(path: PathBuf, megabytes: u64, owner: Option<(u32, u32)>) -> Result<Self> {
        std::fs::create_dir_all(&path)?;
        let (user, group) = owner.unwrap_or_default();
        let options = format!("size={megabytes}m,mode=0700,uid={user},gid={group}");
        run(
            "mount",
            ["-t".as_ref(), "tmpfs".as_ref(), "-o".as_ref(), options.as_ref(), "tmpfs".as_ref(), path.as_os_str()],
        )?;
        Ok(Self { path, megabytes })
    }

    /// A file or folder on it.
    pub fn place(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// From now on it holds no more than it has.
    pub fn fill(&self) -> Result<()> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let used = run("df", ["--output=used".as_ref(), "--block-size=1".as_ref(), self.path.as_os_str()])?;
            let used: u64 = used.lines().last().unwrap_or_default().trim().parse().context("df")?;
            match self.resize(&format!("{used}")) {
                Ok(()) => return Ok(()),
                // Something was written meanwhile.
                Err(error) => last = Some(error),
            }
        }
        last.map_or(Ok(()), Err)
    }

    /// It has room again.
    pub fn free(&self) -> Result<()> {
        self.resize(&format!("{}m", self.megabytes))
    }

    fn resize(&self, size: &str) -> Result<()> {
        let options = format!("remount,size={size}");
        run("mount", ["-o".as_ref(), options.as_ref(), self.path.as_os_str()]).map(drop)
    }

    /// Keeps what it holds where it was, without it.
    pub fn keep(self) -> Result<()> {
        let copy = self.path.with_extension("kept");
        run("cp", ["-a".as_ref(), self.path.as_os_str(), copy.as_os_str()])?;
        let path = self.path.clone();
        drop(self);
        std::fs::remove_dir(&path)?;
        Ok(std::fs::rename(copy, path)?)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = run("umount", [self.path.as_os_str()]);
    }
}

fn run<'a>(program: &str, arguments: impl IntoIterator<Item = &'a OsStr>) -> Result<String> {
    let done = Command::new(program).args(arguments).env("LC_ALL", "C").output().with_context(|| program.to_owned())?;
    if !done.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
