//! Section of a report that a table belongs to: found by its title, in any release's wording, or by
//! its columns. Only this module knows titles of reports.

use super::law::form::Form;

/// Title of the tables at the head of a report, which have no titles themselves.
pub const HEAD: &str = "report header";

/// Title of a table without one, in an excerpt of a report.
pub const UNTITLED: &str = "a table without its title";

/// Sections that petal reads; it skips all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    Database,
    Instance,
    Host,
    Container,
    /// Lines such as `Begin Snap:`, `Elapsed:`, `DB Time:`.
    Snapshots,
    LoadProfile,
    TopEvents,
    /// Top foreground events of a report over several instances before 12.2: its only list of these
    /// processes.
    TopForegroundEvents,
    TopBackgroundEvents,
    ForegroundEvents,
    /// Foreground and background events together, as in reports before 11g.
    AllEvents,
    BackgroundEvents,
    Histogram,
    Statistics,
    TablespaceIo,
    FileIo,
    IoFunctions,
    IoFileTypes,
    IoProfile,
    SegmentsByReads,
    SqlByReads,
    /// Interconnect pings of a cluster.
    Pings,
    OsStatistics,
    HostCpu,
    TimeModel,
    ForegroundClasses,
    /// Wait classes of foreground and background together.
    AllClasses,
    CacheSizes,
    Memory,
    Parameters,
    /// Database Summary of a report over several instances.
    Cluster,
    ClusterInstances,
    ClusterPerSecond,
    ClusterOs,
    ClusterTimeModel,
    ClusterWaitClasses,
    ClusterCaches,
}

impl Topic {
    /// True if the section is read by the labels in its lines, not by columns.
    pub fn is_labelled(self) -> bool {
        matches!(self, Self::Snapshots | Self::CacheSizes | Self::Memory)
    }

    /// True for figures of the database's work, not of its configuration.
    pub fn is_of_work(self) -> bool {
        !matches!(
            self,
            Self::Database
                | Self::Instance
                | Self::Host
                | Self::Container
                | Self::Parameters
                | Self::CacheSizes
                | Self::ClusterCaches
        )
    }

    /// True for the tables at the head of a report, whose cells have forms.
    pub fn is_head(self) -> bool {
        let of_cluster = matches!(self, Self::Cluster | Self::ClusterInstances);
        of_cluster || matches!(self, Self::Database | Self::Instance | Self::Host)
    }

    /// True if text in a column of numbers means that its row was shifted.
    pub fn has_number_columns(self) -> bool {
        self.is_of_work()
            && !self.is_labelled()
            && !self.is_head()
            && !matches!(self, Self::LoadProfile | Self::SqlByReads | Self::HostCpu | Self::Pings)
    }

    /// True if a missing row changes the meaning of the others: ranks in a list, rows without a
    /// name.
    pub fn has_dependent_rows(self) -> bool {
        matches!(
            self,
            Self::TopEvents
                | Self::TopForegroundEvents
                | Self::TopBackgroundEvents
                | Self::SegmentsByReads
                | Self::SqlByReads
                | Self::Parameters
        )
    }
}

/// Reduces a title or heading to lower-case letters, digits and `%`: releases differ in blanks,
/// hyphens and brackets.
pub fn key(text: &str) -> String {
    if text.is_ascii() {
        let mut key = text.to_ascii_lowercase();
        key.retain(|c| c.is_ascii_alphanumeric() || c == '%');
        return key;
    }
    let key: String = text.chars().filter(|c| c.is_alphanumeric() || *c == '%').collect();
    key.to_lowercase()
}

/// Finds a section's topic by its title.
pub fn of_title(title: &str) -> Option<Topic> {
    let key = key(title);
    let key = key.as_str();
    let topic = match key {
        "loadprofile" => Topic::LoadProfile,
        "operatingsystemstatistics" | "osstatistics" => Topic::OsStatistics,
        "osstatisticsbyinstance" => Topic::ClusterOs,
        "memorystatistics" => Topic::Memory,
        "initoraparameters" | "modifiedparameters" => Topic::Parameters,
        "databasesummary" => Topic::Cluster,
        "systemstatisticspersecond" => Topic::ClusterPerSecond,
        "iostatbyfunctionsummary" | "iostatbyfunction" => Topic::IoFunctions,
        "iostatbyfiletypesummary" | "iostatbyfiletype" => Topic::IoFileTypes,
        "ioprofile" | "ioprofileglobal" => Topic::IoProfile,
        "segmentsbyphysicalreads" => Topic::SegmentsByReads,
        "sqlorderedbyreads" => Topic::SqlByReads,
        "interconnectpinglatencystats" | "pingstatistics" => Topic::Pings,
        "waitevents" => Topic::AllEvents,
        "timemodelstatistics" | "timemodelsystemstats" => Topic::TimeModel,
        "timemodel" => Topic::ClusterTimeModel,
        "foregroundwaitclass" => Topic::ForegroundClasses,
        "waitclass" | "waitclassesbytotalwaittime" => Topic::AllClasses,
        "foregroundwaitclasses" => Topic::ClusterWaitClasses,
        "toptimedforegroundevents" => Topic::TopForegroundEvents,
        "toptimedbackgroundevents" => Topic::TopBackgroundEvents,
        _ => return by_prefix(key),
    };
    Some(topic)
}

fn by_prefix(key: &str) -> Option<Topic> {
    if key.starts_with("top") {
        let is_list = ["timedevents", "timedforegroundevents", "foregroundevents", "waitevents"]
            .iter()
            .any(|list| key.contains(list));
        return (is_list && !key.contains("background") && !key.contains("p1p2"))
            .then_some(Topic::TopEvents);
    }
    const BEGINNINGS: [(&str, Topic); 16] = [
        ("foregroundwaitevents", Topic::ForegroundEvents),
        ("waiteventsfordb", Topic::AllEvents),
        ("backgroundwaitevents", Topic::BackgroundEvents),
        ("waiteventhistogram", Topic::Histogram),
        ("instanceactivitystats", Topic::Statistics),
        ("keyinstanceactivitystats", Topic::Statistics),
        ("otherinstanceactivitystats", Topic::Statistics),
        ("systemstatisticsglobal", Topic::Statistics),
        ("sysstatglobal", Topic::Statistics),
        ("tablespaceiostats", Topic::TablespaceIo),
        ("fileiostats", Topic::FileIo),
        ("hostcpu", Topic::HostCpu),
        ("cachesizes", Topic::CacheSizes),
        ("databaseinstancesincluded", Topic::ClusterInstances),
        ("initoraparametersfordb", Topic::Parameters),
        ("loadprofilefor", Topic::LoadProfile),
    ];
    BEGINNINGS.iter().find(|(beginning, _)| key.starts_with(beginning)).map(|(_, topic)| *topic)
}

/// Finds a topic by an HTML table's `summary`, if its title is lost.
pub fn of_summary(summary: &str) -> Option<Topic> {
    let key = key(summary);
    const MARKS: [(&str, Topic); 16] = [
        ("displaysloadprofile", Topic::LoadProfile),
        ("top5timed", Topic::TopEvents),
        ("top10waitevents", Topic::TopEvents),
        ("displaysforegroundwaitevents", Topic::ForegroundEvents),
        ("foregroundwaiteventinformation", Topic::ForegroundEvents),
        ("backgroundwaitevent", Topic::BackgroundEvents),
        ("waiteventhistogram", Topic::Histogram),
        ("totalnumberofwaitsandinformationabouttotalwaittime", Topic::Histogram),
        ("instanceactivitystatistics", Topic::Statistics),
        ("iostatisticsfordifferenttablespaces", Topic::TablespaceIo),
        ("iostatisticsfordifferentphysicalfiles", Topic::FileIo),
        ("iostatisticsfordifferentfunctions", Topic::IoFunctions),
        ("displaysoperatingsystemsstatistics", Topic::OsStatistics),
        ("systemloadstatistics", Topic::HostCpu),
        ("displayscachesizes", Topic::CacheSizes),
        ("displaysmemorystatistics", Topic::Memory),
    ];
    MARKS.iter().find(|(mark, _)| key.contains(mark)).map(|(_, topic)| *topic)
}

/// Finds a topic by the [`key`]s of columns: the tables at the head of a report have no titles.
pub fn of_columns<'k>(keys: impl IntoIterator<Item = &'k str>) -> Option<Topic> {
    const HEADS: [(&[&str], Topic); 8] = [
        (&["dbid", "release", "dbname"], Topic::Database),
        (&["dbid", "release", "database"], Topic::Database),
        (&["snapid", "snaptime", "sessions"], Topic::Snapshots),
        (&["platform", "cpus"], Topic::Host),
        (&["instance", "startuptime"], Topic::Instance),
        (&["instance", "host", "release", "beginsnaptime"], Topic::ClusterInstances),
        (&["containerdbid", "containername"], Topic::Container),
        (&["i", "logbuffer"], Topic::ClusterCaches),
    ];
    with_columns(&HEADS, keys)
}

/// True for a column of names, by the beginning of its [`key`].
pub fn is_of_names(key: &str) -> bool {
    const NAMES: [&str; 12] = [
        "event",
        "statistic",
        "tablespace",
        "file",
        "function",
        "waitclass",
        "class",
        "owner",
        "object",
        "subobject",
        "obj",
        "pdb",
    ];
    key == "i" || NAMES.iter().any(|name| key.starts_with(name))
}

/// Returns the headings of a table at the head of a report, by the [`key`] of all their words
/// together: their places are lost if the line was broken or its blanks were collapsed.
pub fn head_of_words(key: &str) -> Option<&'static [&'static str]> {
    const HEADS: [&[&str]; 7] = [
        &["Host", "Name", "Platform", "CPUs", "Cores", "Sockets", "Memory (G)"],
        &["Host Name", "Platform", "CPUs", "Cores", "Sockets", "Memory (GB)"],
        &["Instance", "Inst Num", "Startup Time"],
        &["Database", "DB Id", "Instance", "Inst Num", "Startup Time", "Release", "RAC"],
        &["DB Name", "DB Id", "Instance", "Inst Num", "Startup Time", "Release", "RAC"],
        &["DB Name", "DB Id", "Instance", "Inst Num", "Release", "RAC", "Host"],
        &["DB Name", "DB Id", "Unique Name", "DB Role", "Edition", "Release", "RAC", "CDB"],
    ];
    let is_all = |names: &&&[&str]| self::key(&names.concat()) == key;
    HEADS.iter().find(is_all).copied()
}

/// Returns the form of the cells of a table at the head of a report, by the [`key`] of its column.
pub fn form_of(key: &str) -> Form {
    match key {
        "dbid" | "id" | "i" | "instnum" | "cpus" | "cores" | "sockets" | "blocksize" | "begin"
        | "end" | "inreport" | "total" => Form::Digits,
        "release" => Form::Release,
        "rac" | "cluster" | "ops" | "cdb" => Form::YesNo,
        "startuptime" | "startup" | "beginsnaptime" | "endsnaptime" => Form::Moment,
        "memorygb" | "memoryg" | "dbtime" | "elapsedtime" | "dbtimemin" | "elapsedtimemin"
        | "uptimehrs" | "avgactivesessions" => Form::Number,
        "dbname" | "database" | "uniquename" | "instance" | "edition" | "host" | "hostname"
        | "name" => Form::Word,
        _ => Form::Words,
    }
}

/// Finds a topic by the [`key`]s of columns without a title over them, as in an excerpt.
pub fn of_body<'k>(keys: impl IntoIterator<Item = &'k str>) -> Option<Topic> {
    const BODIES: [(&[&str], Topic); 4] = [
        (&["persecond", "pertransaction"], Topic::LoadProfile),
        (&["tablespace", "filename", "reads", "writes"], Topic::FileIo),
        (&["tablespace", "reads", "writes"], Topic::TablespaceIo),
        (&["statistic", "total", "persecond"], Topic::Statistics),
    ];
    with_columns(&BODIES, keys)
}

/// Finds the first topic whose columns are all among the keys.
fn with_columns<'k>(
    topics: &[(&[&str], Topic)],
    keys: impl IntoIterator<Item = &'k str>,
) -> Option<Topic> {
    let keys: Vec<&str> = keys.into_iter().collect();
    let has_all = |(columns, _): &&(&[&str], Topic)| columns.iter().all(|key| keys.contains(key));
    topics.iter().find(has_all).map(|(_, topic)| *topic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_all_releases() {
        for (title, topic) in [
            ("Top 5 Wait Events", Topic::TopEvents),
            ("Top 5 Timed Events", Topic::TopEvents),
            ("Top 5 Timed Foreground Events", Topic::TopEvents),
            ("Top 10 Foreground Events by Total Wait Time", Topic::TopEvents),
            ("Top Timed Events", Topic::TopEvents),
            ("Top Timed Foreground Events", Topic::TopForegroundEvents),
            ("Top Timed Background Events", Topic::TopBackgroundEvents),
            ("Wait Events", Topic::AllEvents),
            ("Wait Events for DB: X  Instance: x  Snaps: 1 -2", Topic::AllEvents),
            ("Foreground Wait Events (Global)", Topic::ForegroundEvents),
            ("Wait Event Histogram (up to 64 us)", Topic::Histogram),
            ("Key Instance Activity Stats", Topic::Statistics),
            ("System Statistics (Global)", Topic::Statistics),
            ("Host CPU (CPUs:    8 Cores:    8 Sockets:    2)", Topic::HostCpu),
            ("Cache Sizes (end)", Topic::CacheSizes),
            ("Time Model Statistics", Topic::TimeModel),
            ("Time Model System Stats", Topic::TimeModel),
            ("Foreground Wait Class", Topic::ForegroundClasses),
            ("Wait Classes by Total Wait Time", Topic::AllClasses),
            ("Foreground Wait Classes", Topic::ClusterWaitClasses),
            ("IO Stat by Function - summary", Topic::IoFunctions),
            ("SQL ordered by Reads", Topic::SqlByReads),
            ("Interconnect Ping Latency Stats", Topic::Pings),
            ("Ping Statistics", Topic::Pings),
            ("Modified Parameters", Topic::Parameters),
        ] {
            assert_eq!(of_title(title), Some(topic), "{title}");
        }
    }

    #[test]
    fn titles_that_only_look_alike() {
        for title in [
            "Top Event P1/P2/P3 Values",
            "Top SQL",
            "SQL ordered by Physical Reads (UnOptimized)",
            "IOStat by Function/Filetype summary",
            "Operating System Statistics - Detail",
            "init.ora Multi-Valued Parameters",
            "Modified Multi-Valued Parameters",
            "Foreground Wait Classes -  % of DB time",
            "Service Wait Class Stats",
            "Wait Events Statistics",
            "Time Model - % of DB time",
            "Top User Events",
            "",
        ] {
            assert_eq!(of_title(title), None, "{title}");
        }
    }
}
