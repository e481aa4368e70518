//! Defects that are planted to see that the checks find them.

/// What is wrong with the replicas of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlantedDefect {
    None,
    /// Lists are answered without asking for the end of the log.
    NoIndex,
    /// A leader without a majority is believed.
    AnyLeader,
    /// What was answered unconfirmed is not owed again.
    NoEcho,
    /// Nobody answers for what a replica that is gone answered.
    NoEchoForGone,
    /// Entries of former epochs hold.
    NoFencing,
    /// Second copies of entries hold.
    CopiesHold,
    /// One replica judges an entry differently.
    OwnJudgement,
    /// A call that may have run is sent again.
    SentAgain,
    /// Copies of requests are carried out.
    CopiesRun,
    /// Requests that waited for long are carried out.
    OldRuns,
    /// A server of which there may be one goes on while its owner is in doubt.
    GoesOn,
    /// Own beats are proof enough of being the owner.
    BeatsAlone,
    /// What a server said while its owner was in doubt is not looked at.
    NoListAll,
    /// Nobody begins a log anew that lost its end.
    NoGenesis,
    /// Frames that are missing are not asked for.
    NoRepair,
    /// A change of the set of servers holds whatever the version that it was made for.
    AnyVersion,
    /// Whoever changes the set is answered when the change is written, and not when it holds.
    AnsweredEarly,
    /// Servers that were removed go on.
    RemovedRuns,
    /// A batch takes effect step by step.
    HalfBatch,
    /// A change is told when it is written, and not when it can be read.
    TellsEarly,
    /// A replica takes servers whose labels it does not have.
    IgnoresLabels,
    /// A server that does not start at its owner stays there.
    StaysWhereItFails,
    /// A server is given up before its process has ended.
    GivesUpEarly,
}

pub(crate) const ALL_DEFECTS: [PlantedDefect; 23] = [
    PlantedDefect::NoIndex,
    PlantedDefect::AnyLeader,
    PlantedDefect::NoEcho,
    PlantedDefect::NoEchoForGone,
    PlantedDefect::NoFencing,
    PlantedDefect::CopiesHold,
    PlantedDefect::OwnJudgement,
    PlantedDefect::SentAgain,
    PlantedDefect::CopiesRun,
    PlantedDefect::OldRuns,
    PlantedDefect::GoesOn,
    PlantedDefect::BeatsAlone,
    PlantedDefect::NoListAll,
    PlantedDefect::NoGenesis,
    PlantedDefect::NoRepair,
    PlantedDefect::TellsEarly,
    PlantedDefect::AnyVersion,
    PlantedDefect::AnsweredEarly,
    PlantedDefect::RemovedRuns,
    PlantedDefect::HalfBatch,
    PlantedDefect::IgnoresLabels,
    PlantedDefect::StaysWhereItFails,
    PlantedDefect::GivesUpEarly,
];
