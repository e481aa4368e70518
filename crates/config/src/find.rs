//! Where the configuration is looked for.

use std::path::{Path, PathBuf};

/// A configuration file and how it was come by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundConfig {
    /// The file. When it was named, it may not exist: loading it then says so.
    pub path: PathBuf,
    /// How it was come by.
    pub origin: ConfigOrigin,
}

/// How a configuration file was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigOrigin {
    /// `--config` names it.
    Named,
    /// `$TIDINGS_CONFIG` names it.
    Environment,
    /// It lies in the current folder, which may be somebody else's.
    CurrentFolder,
    /// It lies in the user's config directory.
    User,
}

impl ConfigOrigin {
    /// Whether the file counts only after somebody said yes to its content.
    pub fn needs_consent(self) -> bool {
        // A folder may have been cloned from anywhere, and a configuration starts commands.
        self == Self::CurrentFolder
    }
}

/// The files that may count, the first before the others: that of `--config`, else of `$TIDINGS_CONFIG`, else what there is
/// of `./tidings.toml`, `./.mcp.json` and the user's config directory. Of these the first counts that needs no consent or
/// has it.
pub fn candidates(explicit: Option<&Path>, env: &dyn Fn(&str) -> Option<String>, cwd: &Path) -> Vec<FoundConfig> {
    if let Some(path) = explicit {
        // No other file is looked at: somebody who names a file does not expect another one to count.
        return vec![FoundConfig { path: cwd.join(path), origin: ConfigOrigin::Named }];
    }
    let variable = |name: &str| env(name).filter(|value| !value.is_empty());
    if let Some(path) = variable("TIDINGS_CONFIG") {
        // A relative one names a file of whatever folder somebody stands in, which may be anybody's.
        let origin = match Path::new(&path).is_absolute() {
            true => ConfigOrigin::Environment,
            false => ConfigOrigin::CurrentFolder,
        };
        return vec![FoundConfig { path: cwd.join(path), origin }];
    }
    let users: Vec<PathBuf> = user_files(env).filter(|path| path.is_file()).collect();
    let here = ["tidings.toml", ".mcp.json"].into_iter().map(|name| cwd.join(name)).filter(|path| path.is_file());
    let here = here.map(|path| {
        // Somebody who stands in the config directory has no other file there than the own one.
        let is_own = users.iter().any(|user| place_of(user) == place_of(&path));
        FoundConfig { path, origin: if is_own { ConfigOrigin::User } else { ConfigOrigin::CurrentFolder } }
    });
    let here: Vec<FoundConfig> = here.collect();
    here.into_iter()
        .chain(users.iter().map(|path| FoundConfig { path: path.clone(), origin: ConfigOrigin::User }))
        .collect()
}

/// Where a file stands, whatever links lead to its folder. A link in the place of the file itself is not followed: paths in a file
/// count from the folder that it is seen in, so a folder that has a link to a file of the user's is still a folder of others.
pub fn place_of(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), file.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => file.to_owned(),
    }
}

/// The file of the user's config directory, whether it exists or not.
pub fn user_file(env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    user_files(env).next()
}

fn user_files(env: &dyn Fn(&str) -> Option<String>) -> impl Iterator<Item = PathBuf> {
    let variable = |name: &str| env(name).filter(|value| !value.is_empty());
    // The XDG specification tells programs to ignore relative values.
    let xdg = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = variable("HOME").map(|home| Path::new(&home).join(".config"));
    [xdg, home].into_iter().flatten().map(|folder| folder.join("tidings").join("tidings.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discover(explicit: Option<&Path>, env: &dyn Fn(&str) -> Option<String>, cwd: &Path) -> Option<FoundConfig> {
        candidates(explicit, env, cwd).into_iter().next()
    }

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tidings-find-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn with(self, file: &str) -> Self {
            let path = self.0.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
            self
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn a_named_file_wins_even_when_it_does_not_exist() {
        let folder = Folder::new("named").with("tidings.toml");
        let found = discover(Some(Path::new("other.toml")), &nothing, &folder.0).unwrap();
        assert_eq!(found, FoundConfig { path: folder.0.join("other.toml"), origin: ConfigOrigin::Named });
        assert!(!found.origin.needs_consent());
    }

    #[test]
    fn the_environment_wins_over_the_current_folder() {
        let folder = Folder::new("environment").with("tidings.toml");
        let env = |name: &str| (name == "TIDINGS_CONFIG").then(|| "/etc/t.toml".to_owned());
        let found = discover(None, &env, &folder.0).unwrap();
        assert_eq!(found, FoundConfig { path: "/etc/t.toml".into(), origin: ConfigOrigin::Environment });
    }

    // trust T1
    #[test]
    fn a_relative_path_of_the_environment_is_no_consent_for_every_folder() {
        let folder = Folder::new("relative").with("tidings.toml");
        let env = |name: &str| (name == "TIDINGS_CONFIG").then(|| "tidings.toml".to_owned());
        let found = discover(None, &env, &folder.0).unwrap();
        assert_eq!(found.path, folder.0.join("tidings.toml"));
        assert!(found.origin.needs_consent());
    }

    #[test]
    fn a_file_of_the_current_folder_needs_consent_and_toml_comes_first() {
        let folder = Folder::new("here").with(".mcp.json");
        let found = discover(None, &nothing, &folder.0).unwrap();
        assert_eq!(found.path, folder.0.join(".mcp.json"));
        assert!(found.origin.needs_consent());
        let folder = folder.with("tidings.toml");
        assert_eq!(discover(None, &nothing, &folder.0).unwrap().path, folder.0.join("tidings.toml"));
    }

    #[test]
    fn the_config_directory_comes_last_with_home_as_its_fallback() {
        let empty = Folder::new("empty");
        let home = Folder::new("home").with(".config/tidings/tidings.toml");
        let root = home.0.display().to_string();
        let env = |name: &str| match name {
            "HOME" => Some(root.clone()),
            "XDG_CONFIG_HOME" => Some(format!("{root}/xdg")),
            _ => None,
        };
        let found = discover(None, &env, &empty.0).unwrap();
        assert_eq!(
            found,
            FoundConfig { path: home.0.join(".config/tidings/tidings.toml"), origin: ConfigOrigin::User }
        );
        let home = home.with("xdg/tidings/tidings.toml");
        assert_eq!(discover(None, &env, &empty.0).unwrap().path, home.0.join("xdg/tidings/tidings.toml"));
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        assert_eq!(discover(None, &nothing, &Folder::new("nothing").0), None);
    }
}
