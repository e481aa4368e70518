//! The names of the gateway's own tools and prompts, which no server can have.

use std::sync::Arc;

use tidings_proto::ListKind;

use super::offer::ServerOffer;
use crate::ServerId;

/// The names of what is built in, in the form in which names are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReservedNames(Arc<[(Box<str>, ServerId)]>);

impl ReservedNames {
    pub(super) fn of(offers: &[Arc<ServerOffer>], kind: ListKind) -> Self {
        let of = |offer: &Arc<ServerOffer>| {
            let server = offer.server;
            let names = offer.list(kind).items.iter().map(|item| skeleton(item.key.as_str()).collect::<String>());
            names.map(|name| (name.into(), server)).collect::<Vec<_>>()
        };
        Self(offers.iter().filter(|offer| offer.built_in).flat_map(of).collect())
    }

    /// The built-in server that has this name, or one that reads like it.
    pub(super) fn owner(&self, name: &str) -> Option<ServerId> {
        // Nothing is allocated: this is asked for every item of a list, and nearly always ends at the first letter.
        let reads_like = |reserved: &str| skeleton(name).eq(reserved.chars());
        self.0.iter().find(|(reserved, _)| reads_like(reserved)).map(|(_, server)| *server)
    }
}

/// A name as a reader sees it: `Call-Tool`, `call.tool` and one with a Cyrillic `а` or a zero-width space are `call_tool`.
fn skeleton(name: &str) -> impl Iterator<Item = char> {
    name.chars().flat_map(char::to_lowercase).filter(|letter| !is_unseen(*letter)).map(|letter| match letter {
        '-' | '.' | ' ' | '/' | '\u{2010}'..='\u{2015}' | '\u{a0}' | '\u{ff3f}' => '_',
        'а' | 'α' => 'a',
        'с' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' => 'e',
        'ɡ' => 'g',
        'і' | 'ι' | 'ı' => 'i',
        'ӏ' => 'l',
        'м' => 'm',
        'о' | 'ο' | 'օ' => 'o',
        'р' | 'ρ' => 'p',
        'ѕ' => 's',
        'т' | 'τ' => 't',
        'ν' | 'ѵ' => 'v',
        'у' => 'y',
        // The full-width letters stand in the order of the plain ones.
        '\u{ff41}'..='\u{ff5a}' => char::from_u32(u32::from(letter) - 0xff41 + 0x61).unwrap_or(letter),
        other => other,
    })
}

fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
