//! The table of questions against a model that is a plain list.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidings_hub::calls::CallId;
use tidings_hub::server_requests::{PER_CALL, ServerRequest, ServerRequests};
use tidings_hub::{ClientKey, LinkKey};
use tidings_wire::RawId;

fn raw(text: &str) -> RawId {
    RawId::from_raw(text.as_bytes()).unwrap()
}

fn ask(client: u64, link: u64, call: Option<u64>, id: &str) -> ServerRequest {
    ServerRequest {
        client: ClientKey(client),
        link: LinkKey(link),
        id: raw(id),
        call: call.map(CallId),
        method: "sampling/createMessage".into(),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Open { client: u64, link: u64, call: Option<u64> },
    Answer { client: u64, shown: u64 },
    Withdraw { link: u64, shown: u64 },
    CallOver(u64),
    ClientGone(u64),
    LinkGone(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3u64, 0..3u64, proptest::option::of(0..4u64))
            .prop_map(|(client, link, call)| Step::Open { client, link, call }),
        4 => (0..3u64, 0..40u64).prop_map(|(client, shown)| Step::Answer { client, shown }),
        2 => (0..3u64, 0..40u64).prop_map(|(link, shown)| Step::Withdraw { link, shown }),
        1 => (0..4u64).prop_map(Step::CallOver),
        1 => (0..3u64).prop_map(Step::ClientGone),
        1 => (0..3u64).prop_map(Step::LinkGone),
    ]
}

struct Run {
    table: ServerRequests,
    model: BTreeMap<u64, ServerRequest>,
    next: u64,
}

impl Run {
    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Open { client, link, call } => {
                let shown = self.next;
                self.next += 1;
                // Servers number their questions as they like; two servers may use the same ids.
                let ask = ask(client, link, call, &format!("\"{shown}\""));
                assert!(self.table.open(shown, ask.clone()));
                self.model.insert(shown, ask);
            }
            Step::Answer { client, shown } => {
                let expected = self.model.get(&shown).filter(|ask| ask.client == ClientKey(client)).cloned();
                assert_eq!(self.table.answer(ClientKey(client), &raw(&format!("\"{shown}\""))), None, "another type");
                assert_eq!(self.table.answer(ClientKey(client), &RawId::from(shown)), expected);
                if expected.is_some() {
                    self.model.remove(&shown);
                    assert_eq!(self.table.answer(ClientKey(client), &RawId::from(shown)), None, "answered twice");
                }
            }
            Step::Withdraw { link, shown } => {
                let expected = self.model.get(&shown).filter(|ask| ask.link == LinkKey(link)).cloned();
                let got = self.table.withdraw(LinkKey(link), &raw(&format!("\"{shown}\"")));
                assert_eq!(got, expected.map(|ask| (shown, ask)));
                if got.is_some() {
                    self.model.remove(&shown);
                }
            }
            Step::CallOver(call) => {
                let got = self.table.call_over(CallId(call));
                self.taken(got, |ask| ask.call == Some(CallId(call)));
            }
            Step::ClientGone(client) => {
                let got = self.table.client_gone(ClientKey(client));
                self.taken(got, |ask| ask.client == ClientKey(client));
            }
            Step::LinkGone(link) => {
                let got = self.table.link_gone(LinkKey(link));
                self.taken(got, |ask| ask.link == LinkKey(link));
            }
        }
        assert_eq!(self.table.len(), self.model.len());
        assert_eq!(self.table.is_empty(), self.model.is_empty());
    }

    fn taken(&mut self, mut got: Vec<(u64, ServerRequest)>, doomed: impl Fn(&ServerRequest) -> bool) {
        got.sort_by_key(|(shown, _)| *shown);
        let expected: Vec<(u64, ServerRequest)> = self.model.extract_if(.., |_, ask| doomed(ask)).collect();
        assert_eq!(got, expected);
    }
}

proptest! {
    #[test]
    fn a_question_is_answered_once_and_only_by_the_client_that_was_asked(
        steps in proptest::collection::vec(step(), 1..120)
    ) {
        let mut run = Run { table: ServerRequests::default(), model: BTreeMap::new(), next: 0 };
        for step in &steps {
            run.apply(step);
        }
        for client in 0..3 {
            run.apply(&Step::ClientGone(client));
        }
        prop_assert!(run.table.is_empty());
    }
}

#[test]
fn one_call_may_not_ask_without_end() {
    let mut table = ServerRequests::default();
    for shown in 0..1_000 {
        let fits = table.open(shown, ask(1, 1, Some(1), &shown.to_string()));
        assert_eq!(fits, shown < PER_CALL as u64, "question {shown}");
    }
    assert!(table.open(2_000, ask(1, 1, Some(2), "2000")), "another call has its own bound");
    assert_eq!(table.call_over(CallId(1)).len(), PER_CALL);
    assert!(table.open(3_000, ask(1, 1, Some(1), "3000")));
    assert_eq!(table.len(), 2);
}

#[test]
fn the_same_id_from_two_servers_is_two_questions() {
    let mut table = ServerRequests::default();
    table.open(1, ask(1, 1, None, "7"));
    table.open(2, ask(1, 2, None, "7"));
    assert_eq!(table.withdraw(LinkKey(2), &raw("7")).unwrap().0, 2);
    assert_eq!(table.withdraw(LinkKey(2), &raw("7")), None);
    assert_eq!(table.answer(ClientKey(1), &raw("1")).unwrap().link, LinkKey(1));
}
