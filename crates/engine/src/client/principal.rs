//! Who is asking, and what they may use.

use std::borrow::Cow;
use std::sync::Arc;

use tidings_hub::catalogue::CatalogueSnapshot;
use tidings_hub::client_profile::ViewShape;
use tidings_hub::ledger::ViewDigests;
use tidings_hub::scope::AccessScope;
use tidings_proto::Revision;

use crate::client::quota::{OverQuota, Quota, QuotaBook, QuotaSeat};
use crate::plan::ServerPlan;

/// Somebody who was let in.
#[derive(Clone, Debug)]
pub struct Principal {
    /// What they are called in logs and lists.
    pub name: Arc<str>,
    /// What they may use.
    pub scope: AccessScope,
    /// Whether nobody is asked who they are, so that all see the same.
    anybody: bool,
    /// What they have, where that is counted.
    book: Option<Arc<QuotaBook>>,
}

impl PartialEq for Principal {
    /// The same person with the same rights; how much they have now is no part of who they are.
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.scope, self.anybody) == (&other.name, &other.scope, other.anybody)
    }
}

impl Eq for Principal {}

/// What tells apart what two clients see of the shared catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ViewKey {
    pub(crate) revision: Revision,
    pub(crate) scope: AccessScope,
    /// What the profile of the client makes of it.
    pub(crate) shape: Option<Arc<ViewShape>>,
}

impl Principal {
    /// Somebody who was told apart from others, by a token or by the system: what they see is not shared with others.
    pub fn new(name: &str, scope: AccessScope) -> Self {
        Self { name: name.into(), scope, anybody: false, book: None }
    }

    /// The person at this machine, when nobody is asked who they are: may do everything.
    pub fn local() -> Self {
        Self { name: "local".into(), scope: AccessScope::everything(), anybody: true, book: None }
    }

    /// The same, with what they have counted in this book, which all that is theirs shares.
    #[must_use]
    pub fn counted(self, book: Arc<QuotaBook>) -> Self {
        Self { book: Some(book), ..self }
    }

    /// What they have, where that is counted.
    pub fn book(&self) -> Option<&Arc<QuotaBook>> {
        self.book.as_ref()
    }

    /// One more of something, until the seat is dropped; nothing where it is not counted.
    pub fn take_seat(&self, quota: Quota) -> Result<Option<QuotaSeat>, OverQuota> {
        QuotaSeat::take(self.book.as_ref(), quota)
    }

    /// One in the place of another of theirs, which ends.
    pub fn take_over_seat(&self, quota: Quota) -> Option<QuotaSeat> {
        QuotaSeat::take_over(self.book.as_ref(), quota)
    }

    /// The same person, who asks for one server alone.
    #[must_use]
    pub fn alone_with(&self, server: &str) -> Self {
        Self { scope: self.scope.alone_with(server), ..self.clone() }
    }

    /// The same person without regard to where they ask.
    pub fn as_admitted(&self) -> Cow<'_, Self> {
        match self.scope.alone() {
            None => Cow::Borrowed(self),
            Some(_) => Cow::Owned(Self { scope: self.scope.base().clone(), ..self.clone() }),
        }
    }

    /// Whether what they are given may be kept for others: nobody is told apart.
    pub(crate) fn is_anybody(&self) -> bool {
        self.anybody
    }

    /// Whether another token is this person's, and differs only by having more scopes.
    pub fn is_widened_by(&self, other: &Self) -> bool {
        (&self.name, self.anybody) == (&other.name, other.anybody) && self.scope.is_widened_by(&other.scope)
    }

    /// Whether they may change the gateway.
    pub fn is_admin(&self) -> bool {
        self.scope.is_admin()
    }

    /// Whether they may use a server.
    pub(crate) fn may_use(&self, server: &ServerPlan) -> bool {
        // By audience and name, so that a rule holds for servers that are added later, too.
        // Nothing that is built in is a part of the one server that somebody asks for alone, even if it has its name.
        self.scope.permits(server.audience(), &server.name) && !(server.is_built_in() && self.scope.alone().is_some())
    }
}

impl ViewKey {
    /// The hash of what is seen of a catalogue, by topic.
    pub(crate) fn digests(&self, whole: &Arc<CatalogueSnapshot>) -> ViewDigests {
        whole.seen_as(&self.scope, self.shape.as_ref()).digests(self.revision)
    }
}
