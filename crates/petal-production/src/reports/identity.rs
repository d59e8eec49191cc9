//! Identity of the database that a report is of: reports over time belong together only if nothing
//! in their headers differs.

use petal_awr::figure::shown;
use petal_awr::report::{Report, ReportKind};

/// Fields of a report that identify its database; unknown if the report does not have them.
#[derive(Debug, Clone, PartialEq)]
struct DatabaseIdentity([Option<String>; FIELDS]);

const FIELDS: usize = 6;
/// Fields of an [`DatabaseIdentity`] that name a database if another has the same name, with their words.
const APART: [(usize, &str); 3] = [(3, "DB Id"), (4, "host"), (5, "")];
const HOST: usize = 4;

impl DatabaseIdentity {
    fn of(report: &Report) -> Self {
        let header = &report.header;
        let scope = match report.kind {
            ReportKind::Awrpdb => Some("of a container"),
            ReportKind::Awrg => Some("of a cluster"),
            ReportKind::Excerpt => None,
            ReportKind::Awr | ReportKind::AwrgInstance | ReportKind::Sp => Some("of an instance"),
        };
        Self([
            shown(&header.db),
            shown(&header.instance),
            shown(&header.pdb),
            shown(&header.db_id),
            shown(&header.host),
            scope.map(str::to_owned),
        ])
    }

    fn unknown(&self) -> usize {
        self.0.iter().filter(|field| field.is_none()).count()
    }

    fn fits(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0).enumerate();
        pairs.into_iter().all(|(at, pair)| match pair {
            (Some(one), Some(other)) => is_same(at, one, other),
            _ => true,
        })
    }

    /// Adds the fields that were unknown.
    fn completed(&mut self, other: Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own = own.take().or(other);
        }
    }

    fn name(&self) -> String {
        let mut parts: Vec<&str> = self.0.iter().take(3).flatten().map(String::as_str).collect();
        parts.dedup();
        if parts.is_empty() { "no name".to_owned() } else { parts.join(" ") }
    }
}

/// Some releases print a host without its domain, and names in other cases.
fn is_same(field: usize, one: &str, other: &str) -> bool {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    let is_domain = |long: &str, short: &str| {
        long.strip_prefix(short).is_some_and(|domain| domain.starts_with('.'))
    };
    one == other || field == HOST && (is_domain(&one, &other) || is_domain(&other, &one))
}

/// Groups reports by database, in the order in which databases first appear. A report that fits
/// several databases, because it does not say enough, belongs to none of them.
pub fn groups(reports: &[Report]) -> Vec<(String, Vec<&Report>)> {
    let mut all: Vec<(usize, DatabaseIdentity)> =
        reports.iter().map(DatabaseIdentity::of).enumerate().collect();
    all.sort_by_key(|(_, identity)| identity.unknown());
    let mut found: Vec<(DatabaseIdentity, Vec<usize>)> = Vec::new();
    for (at, identity) in all {
        let mut fitting = found.iter_mut().filter(|(group, _)| group.fits(&identity));
        match (fitting.next(), fitting.next()) {
            (Some((group, own)), None) => {
                group.completed(identity);
                own.push(at);
            }
            _ => found.push((identity, vec![at])),
        }
    }
    found.iter_mut().for_each(|(_, own)| own.sort_unstable());
    found.sort_by_key(|(_, own)| own.first().copied());
    let names = names(&found.iter().map(|(identity, _)| identity.clone()).collect::<Vec<_>>());
    let own = found.into_iter().map(|(_, own)| own.into_iter().filter_map(|at| reports.get(at)));
    names.into_iter().zip(own.map(Iterator::collect)).collect()
}

/// Names databases; if two have the same name, with the fields that differ.
fn names(all: &[DatabaseIdentity]) -> Vec<String> {
    let named = |one: &DatabaseIdentity| {
        let alike: Vec<&DatabaseIdentity> =
            all.iter().filter(|it| it.name() == one.name()).collect();
        let apart = APART.iter().filter_map(|(at, word)| {
            let field = |of: &DatabaseIdentity| of.0.get(*at).cloned().flatten();
            let differs = alike.iter().any(|other| field(other) != field(one));
            Some(format!("{word} {}", field(one).filter(|_| differs)?).trim().to_owned())
        });
        [one.name()].into_iter().chain(apart).collect::<Vec<_>>().join(", ")
    };
    all.iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_awr::samples::sample;

    fn grouped(reports: &[Report]) -> Vec<(String, usize)> {
        groups(reports).into_iter().map(|(name, own)| (name, own.len())).collect()
    }

    #[test]
    fn each_field_tells_databases_apart_and_an_unknown_one_fits() {
        let own = sample("awr_12c.txt");
        let name = DatabaseIdentity::of(&own).name();
        let change = |edit: fn(&mut petal_awr::report::ReportHeader)| {
            let mut other = own.clone();
            edit(&mut other.header);
            other
        };
        let section = std::sync::Arc::from("");
        let text = |text: &str| petal_awr::figure::Figure::text(text, &section);
        let mut copy = own.clone();
        copy.header.db_id = text("987");
        assert_eq!(
            grouped(&[own.clone(), copy.clone(), own.clone()]),
            [
                (format!("{name}, DB Id {}", shown(&own.header.db_id).unwrap()), 2),
                (format!("{name}, DB Id 987"), 1)
            ]
        );
        let mut host = own.clone();
        host.header.host = text("elsewhere");
        assert_eq!(grouped(&[own.clone(), host])[1].0, format!("{name}, host elsewhere"));
        let mut container = own.clone();
        container.header.pdb = text("SALES");
        container.kind = ReportKind::Awrpdb;
        let both = grouped(&[own.clone(), container]);
        assert_eq!((both.len(), both[1].0.as_str()), (2, &*format!("{name} SALES")));
        let without_id = change(|header| header.db_id = None);
        for known in [&without_id, &change(|header| header.host = None)] {
            assert_eq!(grouped(&[known.clone(), own.clone()]), [(name.clone(), 2)]);
        }
        let sizes = grouped(&[without_id, own.clone(), copy]).into_iter().map(|(_, size)| size);
        assert_eq!(sizes.collect::<Vec<_>>(), [1, 1, 1], "it may be of either");
        let mut domain = own.clone();
        let with_domain = format!("{}.EXAMPLE.com", shown(&own.header.host).unwrap());
        domain.header.host = text(&with_domain);
        assert_eq!(grouped(&[own.clone(), domain]).len(), 1);
        let mut cluster = own.clone();
        cluster.kind = ReportKind::Awrg;
        let both = grouped(&[own, cluster]);
        assert_eq!(both[1].0, format!("{name}, of a cluster"));
    }
}
