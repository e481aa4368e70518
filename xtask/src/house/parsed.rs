//! One source file: its sizes, the types it defines, its comments and the modules it names.

use std::path::{Path, PathBuf};

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, UseTree};

/// What is measured of a file, tests left out.
pub(super) struct ParsedFile {
    pub(super) path: PathBuf,
    /// The module that the file is: `["call", "routing"]`.
    pub(super) module: Vec<String>,
    pub(super) lines: usize,
    pub(super) functions: Vec<(String, usize)>,
    pub(super) structs: Vec<(String, usize)>,
    pub(super) types: Vec<String>,
    pub(super) inline_comments: usize,
    pub(super) doc_comments: usize,
    pub(super) doc_words: usize,
    /// Paths into the same crate, from its root.
    pub(super) uses: Vec<Vec<String>>,
    /// Names that the file gives on, with the path from the root that they come from.
    pub(super) gives_on: Vec<(String, Vec<String>)>,
}

impl ParsedFile {
    /// `None` for what holds only tests, and for what does not parse.
    pub(super) fn read(root: &Path, path: &Path, text: &str) -> Option<Self> {
        let inside = path.strip_prefix(root).ok()?;
        let mut module: Vec<String> = inside
            .with_extension("")
            .components()
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect();
        if module.iter().any(|part| part == "tests" || part == "bin") {
            return None;
        }
        if matches!(module.as_slice(), [only] if only == "lib" || only == "main") {
            module.clear();
        }
        let parsed = syn::parse_file(text).ok()?;
        let mut file = Self {
            path: path.to_owned(),
            module,
            lines: 0,
            functions: Vec::new(),
            structs: Vec::new(),
            types: Vec::new(),
            inline_comments: 0,
            doc_comments: 0,
            doc_words: 0,
            uses: Vec::new(),
            gives_on: Vec::new(),
        };
        let tests: Vec<(usize, usize)> = parsed.items.iter().filter_map(test_lines).collect();
        file.read_lines(text, &tests);
        file.visit_file(&parsed);
        Some(file)
    }

    fn read_lines(&mut self, text: &str, tests: &[(usize, usize)]) {
        let mut in_doc = false;
        for (number, line) in (1..).zip(text.lines()) {
            if tests.iter().any(|(from, to)| (*from..=*to).contains(&number)) {
                continue;
            }
            self.lines += 1;
            let line = line.trim();
            let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            if let Some(doc) = doc {
                self.doc_comments += usize::from(!in_doc);
                self.doc_words += doc.split_whitespace().count();
            // Behind code only after the end of a statement or item, so that `//` in a text is not taken for a comment.
            } else if line.starts_with("//") || line.contains("; // ") || line.contains(", // ") {
                self.inline_comments += 1;
            }
            in_doc = doc.is_some();
        }
    }

    fn note_function(&mut self, name: &syn::Ident, block: Span) {
        self.functions.push((name.to_string(), block.end().line + 1 - block.start().line));
    }

    fn note_use(&mut self, path: &[String]) {
        if let Some(absolute) = self.absolute(path) {
            self.uses.push(absolute);
        }
    }

    /// The path from the root of the crate; `None` when it leads elsewhere.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some(self.module.iter().chain(rest).cloned().collect()),
            "super" => {
                let ups = 1 + rest.iter().take_while(|part| *part == "super").count();
                let base = self.module.get(..self.module.len().checked_sub(ups)?)?;
                Some(base.iter().chain(&rest[ups - 1..]).cloned().collect())
            }
            _ => None,
        }
    }

    fn walk_use(&mut self, tree: &UseTree, path: &mut Vec<String>, is_public: bool) {
        match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.walk_use(&step.tree, path, is_public);
                path.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.walk_use(tree, path, is_public)),
            UseTree::Name(name) => self.end_use(&name.ident.to_string(), &name.ident.to_string(), path, is_public),
            UseTree::Rename(name) => self.end_use(&name.ident.to_string(), &name.rename.to_string(), path, is_public),
            UseTree::Glob(_) => self.note_use(path),
        }
    }

    fn end_use(&mut self, name: &str, given_as: &str, path: &mut Vec<String>, is_public: bool) {
        path.push(name.to_owned());
        self.note_use(path);
        // A name in the root may be given on from a child without `self::` before it.
        let from_here = self.absolute(path).unwrap_or_else(|| self.module.iter().chain(&*path).cloned().collect());
        if is_public {
            self.gives_on.push((given_as.to_owned(), from_here));
        }
        path.pop();
    }
}

impl<'ast> Visit<'ast> for ParsedFile {
    fn visit_item(&mut self, item: &'ast Item) {
        if test_lines(item).is_none() {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_public = !matches!(item.vis, syn::Visibility::Inherited);
        self.walk_use(&item.tree, &mut Vec::new(), is_public);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.note_use(&parts);
        visit::visit_path(self, path);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note_function(&item.sig.ident, item.span());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.note_function(&item.sig.ident, item.span());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.structs.push((item.ident.to_string(), item.fields.len()));
        self.types.push(item.ident.to_string());
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.types.push(item.ident.to_string());
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.types.push(item.ident.to_string());
        visit::visit_item_trait(self, item);
    }
}

/// The lines of an item that is there for tests only.
fn test_lines(item: &Item) -> Option<(usize, usize)> {
    let attributes: &[Attribute] = match item {
        Item::Mod(ItemMod { attrs, .. }) => attrs,
        Item::Fn(function) => &function.attrs,
        _ => return None,
    };
    let is_test = |attribute: &Attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    };
    let span = item.span();
    attributes.iter().any(is_test).then(|| (span.start().line, span.end().line))
}

/// Whether a name in camel case is a single word.
pub(super) fn is_one_word(name: &str) -> bool {
    let mut previous_small = false;
    for letter in name.chars() {
        if letter.is_uppercase() && previous_small {
            return false;
        }
        previous_small = letter.is_lowercase() || letter.is_numeric();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(module: &str, text: &str) -> ParsedFile {
        ParsedFile::read(Path::new("/src"), &Path::new("/src").join(module), text).expect("a file")
    }

    #[test]
    fn words_are_counted_by_their_capitals() {
        for (name, single) in [("State", true), ("LinkKey", false), ("SSE", true), ("Http2", true)] {
            assert_eq!(is_one_word(name), single, "{name}");
        }
    }

    #[test]
    fn tests_do_not_count() {
        let file = read("a.rs", "//! Doc.\n\n// Why.\nstruct One;\n#[cfg(test)]\nmod tests {\n    struct Two;\n}\n");
        assert_eq!((file.types, file.lines, file.inline_comments), (vec!["One".to_owned()], 4, 1));
    }

    #[test]
    fn paths_into_the_crate_are_found_however_they_are_written() {
        let text = "use crate::b::{C, d::E};\nuse super::F;\nuse other::G;\nfn f() { crate::h::i(); }\n";
        let file = read("a/x.rs", text);
        let uses: Vec<String> = file.uses.iter().map(|path| path.join("::")).collect();
        assert_eq!(uses, ["b::C", "b::d::E", "a::F", "h::i"]);
    }
}
