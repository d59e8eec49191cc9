//! Lies of an engine: each breaks one promise of the contract. The conformance suite must find every
//! one of them.

macro_rules! lies {
    ($($lie:ident: $promise:literal;)+) => {
        /// A promise that the scripted engine breaks: the URL option `lie=NAME`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Lie {
            $($lie,)+
        }

        impl Lie {
            pub const ALL: &[Self] = &[$(Self::$lie),+];

            /// The item of the contract whose promise it breaks.
            pub fn promise(self) -> &'static str {
                match self {
                    $(Self::$lie => $promise,)+
                }
            }
        }
    };
}

lies! {
    SelectsTouchNoRow: "Session::execute";
    CommitsAreNeverSynced: "Session::execute";
    ABatchIsSyncedOnce: "Session::execute";
    PlacementIsHearsay: "Engine::placement";
    KeysAreInOrder: "Engine::load";
    CancelDoesNothing: "Cancel::cancel";
    StatisticsAreNeverFlushed: "Session::flush_statistics";
    ALoadIgnoresItsStop: "Engine::load";
    ACutLoadLeavesASchema: "Engine::load";
    ALoadReplacesUnasked: "Engine::load";
    BlocksAreSmaller: "Engine::load";
    DataAreNeverInUse: "Engine::begin_use";
    VanishedDataAreThere: "DataUse::vanished";
    LoadedInventsASchema: "Engine::loaded";
    LoadedInventsRows: "Engine::loaded";
    LoadedInventsBytes: "Engine::loaded";
    DescribesAnotherBlockSize: "Engine::describe";
    SettleSettlesNothing: "Engine::settle";
    CountsTwice: "Engine::read_counters";
    CountsHalf: "Engine::read_counters";
    CountsReadsTwice: "Engine::read_counters";
    PhysicalReadsCountTwice: "Engine::read_counters";
    CommitsCountTwiceAmongOthers: "Engine::read_counters";
    VisitsCountTwice: "Engine::read_counters";
    RedoCountsThrice: "Engine::read_counters";
    RedoCountsAThird: "Engine::read_counters";
    CountsFall: "Engine::read_counters";
    ReadsCommitAndCountThrice: "Engine::read_counters";
    VisitsCountThrice: "Engine::read_counters";
    CountsOthersWork: "Engine::read_counters";
    EndpointsAreOne: "Server::endpoints";
    DropLeavesASchema: "Engine::drop_data";
    DropLeavesAHiddenFile: "Engine::drop_data";
    DropTakesForeignFiles: "Engine::drop_data";
    DropNamesNothing: "Engine::drop_data";
    ErrorsNameNothing: "EngineError";
    SelectsReadOneRow: "Session::execute";
    SelectsStayInTheirSchema: "Session::execute";
    SelectsWrite: "Session::execute";
    ScansReadHalf: "Outcome::rows";
    UpdatesWriteNothing: "Session::execute";
    UpdatesTouchANeighbour: "Session::execute";
    UpdatesStayInTheirSchema: "Session::execute";
    UpdatesRepeatTheirText: "Session::execute";
    UpdatesAreWrittenLater: "Session::execute";
    OutcomesAreLost: "Session::execute";
    TheStopIsIgnored: "Session::execute";
    ACutOperationIsDone: "Cancel::cancel";
    LatenciesOfThePrevious: "Outcome::latency_ns";
    LatenciesAreTheMean: "Outcome::latency_ns";
    LatenciesOfAPart: "Outcome::latency_ns";
    LatenciesAreDoubled: "Outcome::latency_ns";
    LatenciesAreShort: "Outcome::latency_ns";
    EndsOfAnotherClock: "Outcome::end_ns";
}

impl Lie {
    /// Name in the URL: `SelectsTouchNoRow`.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|lie| lie.name() == name)
    }

    /// The lie in words: `selects touch no row`.
    pub fn words(self) -> String {
        let mut words = String::new();
        for sign in self.name().chars() {
            if sign.is_uppercase() && !words.is_empty() {
                words.push(' ');
            }
            words.push(sign.to_ascii_lowercase());
        }
        words
    }
}
