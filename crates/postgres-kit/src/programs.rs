//! The server's programs, and the user as whom they run.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The server's programs.
#[derive(Clone, Debug)]
pub struct Programs {
    folder: PathBuf,
    /// Under root, the number and group of the ordinary user.
    user: Option<(u32, u32)>,
}

impl Programs {
    /// Finds them; `None` where there are none.
    pub fn find() -> Option<Programs> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok().into_iter().flatten().flatten();
        let mut folders: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).collect();
        folders.sort_by_key(|folder| {
            let version = folder.parent().and_then(Path::file_name).and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
            std::cmp::Reverse(version.unwrap_or(0.0) as u32)
        });
        folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let folder = folders.into_iter().find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())?;
        let is_root = std::fs::metadata("/proc/self").ok()?.uid() == 0;
        let user = if is_root { Some(ordinary_user()?) } else { None };
        Some(Programs { folder, user })
    }

    /// One of the programs, run as the user that a server runs as.
    pub fn command(&self, program: &str) -> Command {
        self.as_user(&self.folder.join(program))
    }

    /// Any program, run as that user.
    pub fn as_user(&self, path: &Path) -> Command {
        let mut command = match self.user {
            None => Command::new(path),
            Some((user, group)) => {
                let mut command = Command::new("setpriv");
                command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned(), "--".to_owned()]);
                command.arg(path);
                command
            }
        };
        // Nothing of the caller's own settings of the client's library counts here.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("PG")) {
                command.env_remove(name);
            }
        }
        command.current_dir("/");
        command
    }

    /// Gives a file or directory to the user that a server runs as.
    pub fn give(&self, path: &Path) {
        if let Some((user, group)) = self.user {
            std::os::unix::fs::chown(path, Some(user), Some(group)).unwrap();
        }
    }
}

fn ordinary_user() -> Option<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let find = |wanted: &str| {
        let fields: Vec<&str> = users.lines().map(|line| line.split(':').collect()).find(|fields: &Vec<&str>| fields[0] == wanted)?;
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    };
    find("postgres").or_else(|| find("nobody"))
}
