//! The kinds of settings.
//!
//! Owns: for every kind how a value is read, what is expected of it, and how it
//! is shown. Must not: know a single setting; `settings` lists them.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tool_policy::{Mode, Rate};

use super::given::{Element, Given, Wrong, absolute, quoted};
use super::http;
use super::listen;
use super::types::{
    AuditFailure, AuditSync, Cgroup, Config, ListenSpec, LogFormat, LogLevel, PathMap,
    SandboxLevel, WatchMode,
};

/// Where a setting lives in the configuration.
type Place<T> = fn(&mut Config) -> &mut T;

/// A kind, and the place of one setting of that kind.
#[derive(Debug, Clone, Copy)]
pub(super) enum Field {
    Text(Place<String>),
    MaybeText(Place<Option<String>>),
    Group(Place<Option<String>>),
    Directory(Place<PathBuf>),
    MaybeDirectory(Place<Option<PathBuf>>),
    Socket(Place<PathBuf>),
    Mode(Place<u32>),
    Listen(Place<Vec<ListenSpec>>),
    Roots(Place<Vec<PathBuf>>),
    PathMap(Place<Vec<PathMap>>),
    Ids(Place<Option<Vec<u32>>>),
    User(Place<Option<u32>>),
    Flag(Place<bool>),
    Patterns(Place<Vec<String>>),
    Count(Place<usize>),
    /// Zero is a value.
    CountOrNone(Place<usize>),
    Rate(Place<Option<Rate>>),
    Loopback(Place<Option<SocketAddr>>),
    Address(Place<Option<SocketAddr>>),
    Host(Place<Option<IpAddr>>),
    Port(Place<Option<u16>>),
    Hosts(Place<Vec<String>>),
    Origins(Place<Vec<String>>),
    /// With a unit, as 50mb.
    Bytes(Place<usize>),
    /// A second at least.
    Window(Place<Duration>),
    LongMillis(Place<Duration>),
    /// Zero is no value.
    Seconds(Place<Duration>),
    /// Zero is a value: at once.
    SecondsOrNone(Place<Duration>),
    Millis(Place<Duration>),
    Watch(Place<WatchMode>),
    Level(Place<LogLevel>),
    Format(Place<LogFormat>),
    Cgroup(Place<Cgroup>),
    SandboxLevel(Place<SandboxLevel>),
    AuditSync(Place<AuditSync>),
    AuditFailure(Place<AuditFailure>),
    Rules(Place<Mode>),
}

const SYNCS: [(&str, AuditSync); 3] =
    [("never", AuditSync::Never), ("seconds", AuditSync::Seconds), ("each", AuditSync::Each)];
const FAILURES: [(&str, AuditFailure); 2] =
    [("refuse", AuditFailure::Refuse), ("continue", AuditFailure::Continue)];

const SANDBOXES: [(&str, SandboxLevel); 2] =
    [("auto", SandboxLevel::Auto), ("landlock", SandboxLevel::Landlock)];
const WATCH: [(&str, WatchMode); 3] =
    [("auto", WatchMode::Auto), ("inotify", WatchMode::Inotify), ("poll", WatchMode::Poll)];
const LEVELS: [(&str, LogLevel); 5] = [
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];
const MODES: [(&str, Mode); 2] = [("enforce", Mode::Enforce), ("observe", Mode::Observe)];
const FORMATS: [(&str, LogFormat); 3] =
    [("auto", LogFormat::Auto), ("text", LogFormat::Text), ("json", LogFormat::Json)];

const PATH: &str = "a path";
const SECONDS: &str = "seconds, more than 0 and at most 7 days, as 30 or 0.5";
const SECONDS_OR_NONE: &str = "seconds, at most 7 days, as 2 or 0.5";
const MILLIS: &str = "milliseconds, 1 to 60000";
const COUNT: &str = "a whole number, at least 1";
const PATTERN: &str = "a list of variables' names, with a final * for a prefix";
const MAPPING: &str = "a list of CLIENT=SERVER, two absolute paths each";
const RATE: &str = "a rate as 600/minute or 600/minute, burst 50; each second, minute or hour";
const LOOPBACK: &str = "a loopback address and a port, as 127.0.0.1:9464 or [::1]:9464";
const MAX_SECONDS: Duration = Duration::from_secs(7 * 24 * 60 * 60);

impl Field {
    /// Reads a value and puts it in its place.
    pub(super) fn apply(self, config: &mut Config, given: &Given<'_>) -> Result<(), Wrong> {
        let text = || given.text().filter(|text| !text.is_empty());
        match self {
            Field::Text(place) => *place(config) = text().ok_or("a text")?.to_owned(),
            Field::MaybeText(place) => *place(config) = Some(text().ok_or("a text")?.to_owned()),
            Field::Group(place) => {
                *place(config) = Some(text().ok_or("the name of a group")?.to_owned());
            }
            Field::Directory(place) => *place(config) = text().and_then(absolute).ok_or(PATH)?,
            Field::MaybeDirectory(place) => {
                *place(config) = Some(text().and_then(absolute).ok_or(PATH)?);
            }
            Field::Socket(place) => {
                *place(config) = text().and_then(listen::socket).ok_or(listen::SOCKET)?;
            }
            Field::Mode(place) => *place(config) = given.mode().ok_or(listen::MODE)?,
            Field::Listen(place) => *place(config) = listen::parse(given)?,
            Field::Roots(place) => *place(config) = roots(given)?,
            Field::PathMap(place) => *place(config) = each(given, &[':'], MAPPING, mapping)?,
            Field::Ids(place) => {
                let id = |text: &str| text.parse().ok();
                let expected = "a list of numbers";
                *place(config) = Some(each(given, &[',', ':'], expected, id)?);
            }
            Field::User(place) => *place(config) = Some(user(given)?),
            Field::Flag(place) => *place(config) = given.flag().ok_or("true or false")?,
            Field::Patterns(place) => *place(config) = each(given, &[':'], PATTERN, pattern)?,
            Field::Count(place) => {
                let count = given.integer().and_then(|count| usize::try_from(count).ok());
                *place(config) = count.filter(|count| *count > 0).ok_or(COUNT)?;
            }
            Field::CountOrNone(place) => {
                let count = given.integer().and_then(|count| usize::try_from(count).ok());
                *place(config) = count.ok_or("a whole number")?;
            }
            Field::Rate(place) => {
                *place(config) = Some(text().and_then(|text| text.parse().ok()).ok_or(RATE)?);
            }
            Field::Loopback(place) => *place(config) = Some(loopback(given).ok_or(LOOPBACK)?),
            Field::Address(place) => *place(config) = Some(http::address(given)?),
            Field::Host(place) => *place(config) = Some(http::host(given)?),
            Field::Port(place) => *place(config) = Some(http::port(given)?),
            Field::Hosts(place) => *place(config) = each(given, &[','], http::HOST, http::name)?,
            Field::Origins(place) => {
                *place(config) = each(given, &[','], http::ORIGIN, http::origin)?;
            }
            Field::Bytes(place) => *place(config) = http::bytes(given)?,
            Field::Window(place) => *place(config) = http::millis(given, 1000)?,
            Field::LongMillis(place) => *place(config) = http::millis(given, 1)?,
            Field::Seconds(place) => {
                let seconds = seconds(given).filter(|seconds| !seconds.is_zero());
                *place(config) = seconds.ok_or(SECONDS)?;
            }
            Field::SecondsOrNone(place) => {
                *place(config) = seconds(given).ok_or(SECONDS_OR_NONE)?;
            }
            Field::Millis(place) => {
                let millis = given.integer().filter(|millis| (1..=60_000).contains(millis));
                *place(config) = Duration::from_millis(millis.ok_or(MILLIS)?);
            }
            Field::Watch(place) => *place(config) = choice(given, &WATCH)?,
            Field::SandboxLevel(place) => *place(config) = choice(given, &SANDBOXES)?,
            Field::Level(place) => *place(config) = choice(given, &LEVELS)?,
            Field::Format(place) => *place(config) = choice(given, &FORMATS)?,
            Field::AuditSync(place) => *place(config) = choice(given, &SYNCS)?,
            Field::AuditFailure(place) => *place(config) = choice(given, &FAILURES)?,
            Field::Rules(place) => *place(config) = choice(given, &MODES)?,
            Field::Cgroup(place) => {
                *place(config) = match text() {
                    Some("auto") => Cgroup::Auto,
                    Some("off") => Cgroup::Off,
                    Some(path) if path.starts_with('/') => Cgroup::Path(path.into()),
                    _ => return Err("auto, off or an absolute path".into()),
                };
            }
        }
        Ok(())
    }

    /// The value as TOML writes it; `None`: unset.
    pub(super) fn show(self, config: &mut Config) -> Option<String> {
        let path = |path: &Path| quoted(&path.display().to_string());
        let seconds = |duration: &Duration| duration.as_secs_f64().to_string();
        Some(match self {
            Field::Text(place) => quoted(place(config)),
            Field::Group(place) | Field::MaybeText(place) => quoted(place(config).as_deref()?),
            Field::Directory(place) | Field::Socket(place) => path(place(config)),
            Field::MaybeDirectory(place) => path(place(config).as_deref()?),
            Field::Mode(place) => quoted(&format!("{:04o}", place(config))),
            Field::Listen(place) => listen::show(place(config)),
            Field::Roots(place) => list(place(config).iter().map(|root| path(root))),
            Field::PathMap(place) => {
                list(place(config).iter().map(|PathMap { client, server }| {
                    quoted(&format!("{}={}", client.display(), server.display()))
                }))
            }
            Field::Ids(place) => list(place(config).as_ref()?.iter().map(u32::to_string)),
            Field::User(place) => place(config).as_ref()?.to_string(),
            Field::Flag(place) => place(config).to_string(),
            Field::Patterns(place) => list(place(config).iter().map(|pattern| quoted(pattern))),
            Field::Count(place) | Field::CountOrNone(place) | Field::Bytes(place) => {
                place(config).to_string()
            }
            Field::Rate(place) => quoted(&place(config).as_ref()?.to_string()),
            Field::Loopback(place) | Field::Address(place) => {
                quoted(&place(config).as_ref()?.to_string())
            }
            Field::Host(place) => quoted(&place(config).as_ref()?.to_string()),
            Field::Port(place) => place(config).as_ref()?.to_string(),
            Field::Hosts(place) | Field::Origins(place) => {
                list(place(config).iter().map(|name| quoted(name)))
            }
            Field::Seconds(place) | Field::SecondsOrNone(place) => seconds(place(config)),
            Field::Millis(place) | Field::Window(place) | Field::LongMillis(place) => {
                place(config).as_millis().to_string()
            }
            Field::Watch(place) => chosen(*place(config), &WATCH)?,
            Field::SandboxLevel(place) => chosen(*place(config), &SANDBOXES)?,
            Field::Level(place) => chosen(*place(config), &LEVELS)?,
            Field::Format(place) => chosen(*place(config), &FORMATS)?,
            Field::AuditSync(place) => chosen(*place(config), &SYNCS)?,
            Field::AuditFailure(place) => chosen(*place(config), &FAILURES)?,
            Field::Rules(place) => chosen(*place(config), &MODES)?,
            Field::Cgroup(place) => match place(config) {
                Cgroup::Auto => quoted("auto"),
                Cgroup::Off => quoted("off"),
                Cgroup::Path(cgroup) => path(cgroup),
            },
        })
    }

    /// What stands for the value in the help.
    pub(super) fn placeholder(self) -> &'static str {
        match self {
            Field::Text(_) | Field::MaybeText(_) | Field::Cgroup(_) => "TEXT",
            Field::Group(_) => "GROUP",
            Field::Directory(_) | Field::MaybeDirectory(_) => "DIR",
            Field::Socket(_) => "PATH",
            Field::Mode(_) => "OCTAL",
            Field::Listen(_) => "PATH[,mode=0660][,group=NAME][,tools=git:gh]",
            Field::Roots(_) => "DIR[:DIR]",
            Field::PathMap(_) => "CLIENT=SERVER[:CLIENT=SERVER]",
            Field::Ids(_) => "ID[,ID]",
            Field::User(_) => "USER",
            Field::Flag(_) => "true|false",
            Field::Patterns(_) => "NAME[:NAME]",
            Field::Count(_) | Field::CountOrNone(_) => "COUNT",
            Field::Rate(_) => "COUNT/PERIOD",
            Field::Loopback(_) | Field::Address(_) => "ADDRESS:PORT",
            Field::Host(_) => "ADDRESS",
            Field::Port(_) => "PORT",
            Field::Hosts(_) => "NAME[,NAME]",
            Field::Origins(_) => "ORIGIN[,ORIGIN]",
            Field::Bytes(_) => "BYTES",
            Field::Seconds(_) | Field::SecondsOrNone(_) => "SECONDS",
            Field::Millis(_) | Field::Window(_) | Field::LongMillis(_) => "MILLISECONDS",
            Field::Watch(_) => "auto|inotify|poll",
            Field::SandboxLevel(_) => "auto|landlock",
            Field::Level(_) => "error|warn|info|debug|trace",
            Field::Format(_) => "auto|text|json",
            Field::AuditSync(_) => "never|seconds|each",
            Field::AuditFailure(_) => "refuse|continue",
            Field::Rules(_) => "enforce|observe",
        }
    }

    /// Whether its flag may be given more than once.
    pub(super) fn is_list(self) -> bool {
        matches!(
            self,
            Field::Listen(_)
                | Field::Roots(_)
                | Field::PathMap(_)
                | Field::Ids(_)
                | Field::Hosts(_)
                | Field::Origins(_)
                | Field::Patterns(_)
        )
    }
}

fn list(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(", "))
}

fn each<T>(
    given: &Given<'_>,
    separators: &[char],
    expected: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, Wrong> {
    let elements = given.list(separators).ok_or(expected)?;
    let one = |(text, at): &Element| parse(text).ok_or_else(|| Wrong::of(expected, text, *at));
    elements.iter().map(one).collect()
}

fn roots(given: &Given<'_>) -> Result<Vec<PathBuf>, Wrong> {
    let expected = "one or more directories";
    let root = |text: &str| absolute(text).filter(|_| !text.is_empty());
    // A single root may be written as a plain string in the file as well.
    let roots = match given.text().filter(|_| matches!(given, Given::Toml(_))) {
        Some(text) => vec![root(text).ok_or(expected)?],
        None => each(given, &[':'], expected, root)?,
    };
    if roots.is_empty() { Err(expected.into()) } else { Ok(roots) }
}

fn mapping(text: &str) -> Option<PathMap> {
    let (client, server) = text.split_once('=')?;
    let absolute = client.starts_with('/') && server.starts_with('/');
    absolute.then(|| PathMap { client: client.into(), server: server.into() })
}

fn pattern(text: &str) -> Option<String> {
    let name = text.strip_suffix('*').unwrap_or(text);
    (!text.is_empty() && !name.contains(['=', '*'])).then(|| text.to_owned())
}

fn user(given: &Given<'_>) -> Result<u32, Wrong> {
    let number = given.integer().and_then(|number| u32::try_from(number).ok());
    let by_name = || {
        let found = nix::unistd::User::from_name(given.text()?).ok()??;
        Some(found.uid.as_raw())
    };
    number.or_else(by_name).ok_or_else(|| "a uid, or the name of a user of this system".into())
}

/// An address that no other machine can reach, whatever the network is like.
fn loopback(given: &Given<'_>) -> Option<SocketAddr> {
    given.text()?.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback())
}

fn seconds(given: &Given<'_>) -> Option<Duration> {
    let duration = Duration::try_from_secs_f64(given.decimal()?).ok()?;
    Some(duration).filter(|duration| *duration <= MAX_SECONDS)
}

fn choice<T: Copy>(given: &Given<'_>, choices: &[(&str, T)]) -> Result<T, Wrong> {
    let found = choices.iter().find(|(name, _)| given.text() == Some(name));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        Wrong::from(format!("one of {}", names.join(", ")).as_str())
    })
}

fn chosen<T: Copy + PartialEq>(value: T, choices: &[(&str, T)]) -> Option<String> {
    choices.iter().find(|(_, known)| *known == value).map(|(name, _)| quoted(name))
}
