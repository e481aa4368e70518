//! Patterns of paths: `*` and `?` stay inside one name, `[a-z]` is one character of a set, `**` is any number of folders.
//! A name that begins with a dot has to be asked for by one.

use std::path::{Component, Path, PathBuf};

/// A pattern below a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileGlob {
    parts: Vec<String>,
}

/// Whether a path is a pattern.
pub(super) fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

impl FileGlob {
    /// The folder that a pattern stays in, and the pattern below it.
    pub(super) fn split(path: &Path) -> (PathBuf, Self) {
        let mut root = PathBuf::new();
        let mut parts = Vec::new();
        for component in path.components() {
            let text = component.as_os_str().to_string_lossy();
            // From the first wildcard on everything is pattern, also names without one.
            if parts.is_empty() && !(matches!(component, Component::Normal(_)) && is_pattern(text.as_ref().as_ref())) {
                root.push(component);
            } else {
                parts.push(text.into_owned());
            }
        }
        (root, Self { parts })
    }

    /// Whether it matches a path below its folder.
    pub(super) fn matches(&self, path: &Path) -> bool {
        let names: Vec<_> = path.components().map(|component| component.as_os_str().to_string_lossy()).collect();
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        path_matches(&self.parts, &names)
    }

    /// Whether something inside this folder could match.
    pub(super) fn may_be_inside(&self, folder: &Path) -> bool {
        let mut parts = self.parts.iter();
        for name in folder.components() {
            match parts.next() {
                // Any depth below this is possible.
                Some(part) if part == "**" => return true,
                Some(part) if name_matches(part, &name.as_os_str().to_string_lossy()) => {}
                _ => return false,
            }
        }
        parts.len() > 0
    }
}

fn path_matches(parts: &[String], names: &[&str]) -> bool {
    match (parts.split_first(), names.split_first()) {
        (None, None) => true,
        (Some((part, rest)), _) if part == "**" => {
            // Zero folders, or one and the same again. A file is matched by `**` only as its last part.
            path_matches(rest, names)
                || names.split_first().is_some_and(|(name, deeper)| {
                    // Hidden folders are not entered by `**`, as in a shell.
                    !name.starts_with('.') && (path_matches(parts, deeper) || (rest.is_empty() && deeper.is_empty()))
                })
        }
        (Some((part, rest)), Some((name, deeper))) => name_matches(part, name) && path_matches(rest, deeper),
        _ => false,
    }
}

fn name_matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where to go on when what follows the last `*` did not match.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                retry = Some((p, n));
                p += 1;
                continue;
            }
            Some('?') => Some(p + 1),
            Some('[') => one_of(&pattern, p, name[n]),
            Some(c) if *c == name[n] => Some(p + 1),
            _ => None,
        };
        match (step, retry) {
            (Some(next), _) => (p, n) = (next, n + 1),
            (None, Some((star, from))) => {
                // The star takes one more character; only the last star has to be tried again.
                retry = Some((star, from + 1));
                (p, n) = (star + 1, from + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Where the pattern goes on behind a set that has the character; a `[` without its end is itself.
fn one_of(pattern: &[char], open: usize, wanted: char) -> Option<usize> {
    let negated = matches!(pattern.get(open + 1), Some('!' | '^'));
    let first = open + 1 + usize::from(negated);
    // A `]` at the beginning belongs to the set.
    let Some(length) = pattern.get(first + 1..).and_then(|rest| rest.iter().position(|c| *c == ']')) else {
        return (wanted == '[').then_some(open + 1);
    };
    let end = first + 1 + length;
    let set = &pattern[first..end];
    let mut at = 0;
    let mut found = false;
    while at < set.len() {
        if set.get(at + 1) == Some(&'-') && at + 2 < set.len() {
            found |= (set[at]..=set[at + 2]).contains(&wanted);
            at += 3;
        } else {
            found |= set[at] == wanted;
            at += 1;
        }
    }
    (found != negated).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        let table = [
            ("/r/*.md", "a.md", true),
            ("/r/*.md", "b/a.md", false),
            ("/r/*.md", ".a.md", false),
            ("/r/.*", ".a.md", true),
            ("/r/**/*.md", "a.md", true),
            ("/r/**/*.md", "b/c/a.md", true),
            ("/r/**/*.md", ".git/a.md", false),
            ("/r/**", "b/c/a.md", true),
            ("/r/**", "a", true),
            ("/r/*/x?.txt", "b/x1.txt", true),
            ("/r/*/x?.txt", "b/x12.txt", false),
            ("/r/[a-c]*[!0-9]", "b1x", true),
            ("/r/[a-c]*[!0-9]", "b12", false),
            ("/r/[]]", "]", true),
            ("/r/[x", "[x", true),
            ("/r/a*b*c", "a1b2b3c", true),
            ("/r/a*b*c", "a1b2", false),
        ];
        for (pattern, path, expected) in table {
            let (root, glob) = FileGlob::split(Path::new(pattern));
            assert_eq!(
                (root.as_path(), glob.matches(Path::new(path))),
                (Path::new("/r"), expected),
                "{pattern} {path}"
            );
        }
    }

    #[test]
    fn folders_that_can_not_hold_a_match_are_not_entered() {
        let (root, glob) = FileGlob::split(Path::new("/r/s/*.d/conf/*.toml"));
        assert_eq!(root, Path::new("/r/s"));
        let inside = |folder: &str| glob.may_be_inside(Path::new(folder));
        assert!(inside("") && inside("x.d") && inside("x.d/conf"));
        assert!(!inside("x") && !inside("x.d/other") && !inside("x.d/conf/deeper"));
        let (_, glob) = FileGlob::split(Path::new("/r/**/*.md"));
        assert!(glob.may_be_inside(Path::new("a/b/c")));
    }
}
