//! Every task has an owner: nobody may drop the handle of `tokio::spawn` where it is made. Tasks of trackers are the trackers'.

use std::fs;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ItemFn, ItemMod, Pat, Stmt};

/// The harnesses: their tasks end with the process.
const HARNESSES: [&str; 4] = ["testkit", "soak", "chaos", "bench"];

/// Places where a handle is dropped, as lines of one file.
#[derive(Default)]
struct Dropped(Vec<usize>);

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        path.is_ident("test")
            || (path.is_ident("cfg") && attribute.parse_args::<syn::Path>().is_ok_and(|what| what.is_ident("test")))
    })
}

fn is_spawn(expression: &Expr) -> bool {
    let Expr::Call(call) = expression else { return false };
    let Expr::Path(path) = &*call.func else { return false };
    let names: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    matches!(names.iter().map(String::as_str).collect::<Vec<_>>()[..], [.., "tokio", "spawn"] | [.., "task", "spawn"])
}

impl<'ast> Visit<'ast> for Dropped {
    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        let dropped = match statement {
            Stmt::Expr(expression, Some(_)) => is_spawn(expression),
            Stmt::Local(local) => {
                let is_unnamed = matches!(&local.pat, Pat::Wild(_));
                is_unnamed && local.init.as_ref().is_some_and(|init| is_spawn(&init.expr))
            }
            _ => false,
        };
        if dropped {
            self.0.push(statement.span().start().line);
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }
}

fn dropped_in(text: &str) -> Vec<usize> {
    let mut dropped = Dropped::default();
    dropped.visit_file(&syn::parse_file(text).expect("it compiles"));
    dropped.0
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let is_tests = path.file_stem().is_some_and(|name| name == "tests");
        if path.is_dir() && !is_tests {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_tests {
            found.push(path);
        }
    }
}

// edges D5, invariant 10
#[test]
fn no_task_is_spawned_without_an_owner() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates).expect("the crates").flatten() {
        let source = entry.path().join("src");
        if source.is_dir() && !HARNESSES.iter().any(|name| entry.file_name() == *name) {
            sources(&source, &mut files);
        }
    }
    assert!(files.len() > 100, "these are not the sources: {}", files.len());
    let dropped: Vec<String> = files
        .iter()
        .flat_map(|path| {
            let lines = dropped_in(&fs::read_to_string(path).expect("a source"));
            lines.into_iter().map(|line| format!("{}:{line}", path.display()))
        })
        .collect();
    assert!(dropped.is_empty(), "nobody owns what is spawned here:\n{}", dropped.join("\n"));
}

#[test]
fn a_dropped_handle_is_seen() {
    assert_eq!(dropped_in("fn f() { tokio::spawn(work()); }"), [1]);
    assert_eq!(dropped_in("fn f() {\n let _ = tokio::spawn(work());\n}"), [2]);
    assert_eq!(dropped_in("fn f() { let task = tokio::spawn(work()); own(tokio::spawn(work())); }"), [0; 0]);
    assert_eq!(dropped_in("#[cfg(test)] mod tests { fn f() { tokio::spawn(work()); } }"), [0; 0]);
}
