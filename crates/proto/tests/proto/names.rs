//! Names and URIs on both sides.

use std::collections::HashSet;

use proptest::prelude::*;
use tidings_proto::names::{MAX_PUBLIC_NAME, public_name};
use tidings_proto::{LocalName, UriMap};

fn shown(prefix: &str, local: &str) -> String {
    public_name(prefix, &LocalName::new(local)).to_string()
}

#[test]
fn names_up_to_the_limit_stay_readable() {
    assert_eq!(shown("git", "status"), "git__status");
    let fits = "n".repeat(MAX_PUBLIC_NAME - 5);
    assert_eq!(shown("git", &fits), format!("git__{fits}"));
    let long = shown("git", &format!("{fits}n"));
    assert_eq!(long.len(), MAX_PUBLIC_NAME);
    assert!(long.starts_with("git__nnn"));
    assert_eq!(long, shown("git", &format!("{fits}n")), "the same every time");
}

proptest! {
    #[test]
    fn no_public_name_is_too_long(prefix in "[a-zA-Z0-9_-]{1,40}", local in any::<String>()) {
        prop_assert!(shown(&prefix, &local).len() <= MAX_PUBLIC_NAME);
    }

    // edges C9: hosts know the resource of an app by its scheme.
    #[test]
    fn the_scheme_of_an_app_stays(prefix in "[a-z][a-z0-9.-]{0,8}", rest in any::<String>()) {
        let (map, uri) = (UriMap::Prefix(prefix.as_str().into()), format!("ui://{rest}"));
        prop_assert_eq!(map.outward(&uri), format!("ui://{prefix}/{rest}"));
        let shown = map.outward(&uri);
        let back = map.inward(&shown);
        prop_assert_eq!(back.as_deref(), Some(uri.as_str()));
    }

    #[test]
    fn uris_come_back_as_they_were(prefix in "[a-z][a-z0-9.-]{0,8}", uri in any::<String>()) {
        for map in [UriMap::Transparent, UriMap::Prefix(prefix.into())] {
            let shown = map.outward(&uri);
            let back = map.inward(&shown);
            prop_assert_eq!(back.as_deref(), Some(uri.as_str()));
        }
    }
}

#[test]
fn long_names_with_one_beginning_are_different() {
    let names: HashSet<String> = (0..1_000).map(|n| shown("p", &format!("{}{n}", "x".repeat(90)))).collect();
    assert_eq!(names.len(), 1_000);
}

#[test]
fn a_uri_of_another_server_is_not_ours() {
    let map = UriMap::Prefix("up".into());
    for (uri, local) in [
        ("up+file:///x", Some("file:///x")),
        ("UP+file:///x", Some("file:///x")),
        ("up+file:///{path}", Some("file:///{path}")),
        ("up+", Some("")),
        ("up:file:///x", None),
        ("upper+file:///x", None),
        ("file:///x", None),
        ("u", None),
        ("", None),
        ("ü+file:///x", None),
        ("ui://up/app", Some("ui://app")),
        ("UI://Up/app", Some("UI://app")),
        ("ui://upper/app", None),
        ("ui://up", None),
    ] {
        assert_eq!(map.inward(uri).as_deref(), local, "{uri}");
    }
}

#[test]
fn a_message_without_our_scheme_is_left_as_it_is() {
    let uris = UriMap::Bare("up".into());
    let held = [
        r#""watch:x""#,
        r#""WaTcH:x""#,
        "watch:",
        r#"{"a":1,"uri":"watch:x"}"#,
        r#""watch\u003ax""#,
        r#""\u0077atch:x""#,
        r#"{"a":"\"","uri":"\u0057atch:x"}"#,
    ];
    for message in held {
        assert!(!uris.leaves_all(message.as_bytes()), "{message}");
    }
    let left =
        ["", ":", "h:", "atch:", r#"{"match:":1,"a":"\"h:\"","b":"\n\\ watch"}"#, r#"{"uri":"file:///watch/h"}"#];
    for message in left {
        assert!(uris.leaves_all(message.as_bytes()), "{message}");
    }
}
