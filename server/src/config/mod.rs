//! The server's settings, each from one place that can be named.
//!
//! Owns: the effective configuration, and for every value where it came from:
//! a flag beats the environment beats the file beats the default. Must not:
//! keep secrets, or act on what it reads.

mod error;
mod field;
mod file;
mod given;
mod http;
mod listen;
mod settings;
#[cfg(test)]
mod tests;
mod types;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches};

pub(crate) use error::ConfigError;
pub(crate) use types::{
    AuditFailure, AuditSync, Cgroup, Config, Http, LogFormat, LogLevel, SandboxLevel, WatchMode,
};

use field::Field;
use given::{Given, Wrong};
use settings::{ALSO, Initial, SETTINGS, Setting};

/// A variable of the environment.
type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    File { path: PathBuf, line: usize },
    Env(&'static str),
    Flag(&'static str),
}

impl std::fmt::Display for Source {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Default => formatter.write_str("default"),
            Source::File { path, line } => write!(formatter, "file {}:{line}", path.display()),
            Source::Env(name) => write!(formatter, "env {name}"),
            Source::Flag(name) => write!(formatter, "flag --{name}"),
        }
    }
}

/// One setting as it is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effective {
    pub(crate) key: &'static str,
    /// As TOML writes it; `None`: unset.
    pub(crate) value: Option<String>,
    pub(crate) source: Source,
}

/// Every setting as a flag of the server's command, and `--config`.
pub(crate) fn arguments() -> Vec<Arg> {
    let file = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .help("Read settings from a TOML file [env: TOOL_CONFIG]")
        .global(true)
        .value_parser(clap::value_parser!(OsString));
    std::iter::once(file).chain(SETTINGS.iter().map(argument)).collect()
}

fn argument(setting: &Setting) -> Arg {
    let default = match setting.default {
        Initial::Unset => String::new(),
        Initial::Text(text) | Initial::Computed(text, _) => format!(" [default: {text}]"),
    };
    let names: Vec<&str> = names(setting).collect();
    let help = format!("{} [env: {}]{default}", setting.help, names.join(", else "));
    let argument = Arg::new(setting.flag)
        .long(setting.flag)
        .value_name(setting.field.placeholder())
        .help(help)
        .help_heading("Settings")
        .global(true)
        .value_parser(clap::value_parser!(OsString));
    match setting.field {
        // `--flag` alone is yes; `--flag=false` undoes what a file says.
        Field::Flag(_) => {
            argument.num_args(0..=1).require_equals(true).default_missing_value("true")
        }
        _ if setting.field.is_list() => argument.action(ArgAction::Append),
        _ => argument,
    }
}

/// Reads every setting. Whatever is wrong is one error that names its place.
pub(crate) fn load(matches: &ArgMatches, env: Environment<'_>) -> Result<Config, ConfigError> {
    let uid = nix::unistd::geteuid().as_raw();
    let chosen = flags(matches, "config")?.and_then(|mut given| given.pop());
    let chosen = match chosen {
        Some(path) => Some(path),
        None => variable(env, "TOOL_CONFIG")?,
    };
    let file = chosen.map(|path| file::read(Path::new(&path))).transpose()?;
    let table = file.as_ref().map(file::File::parse).transpose()?;
    let mut config = Config::default();
    for setting in SETTINGS {
        let from_file = table.as_ref().and_then(|table| table.get(setting.key));
        let (given, source) = if let Some(texts) = flags(matches, setting.flag)? {
            (Some(Given::Texts(texts)), Source::Flag(setting.flag))
        } else if let Some((text, name)) = from_env(setting, env)? {
            (Some(Given::Texts(vec![text])), Source::Env(name))
        } else if let Some((value, line)) = from_file {
            let path = table.as_ref().map(|table| table.path().to_owned()).unwrap_or_default();
            (Some(Given::Toml(value)), Source::File { path, line: *line })
        } else {
            (default(setting, env, &config, uid)?, Source::Default)
        };
        if let (Some(given), Source::Env("WORKSPACE_ROOT")) = (&given, &source)
            && !given.text().is_some_and(|text| text.starts_with('/'))
        {
            // The server that this name is from takes no other.
            let wrong = Wrong::from("a directory's whole path, which begins with /");
            return Err(bad(setting, given, &source, wrong, file.as_ref()));
        }
        if let Some(given) = &given {
            let applied = setting.field.apply(&mut config, given);
            applied.map_err(|wrong| bad(setting, given, &source, wrong, file.as_ref()))?;
        }
        let value = setting.field.show(&mut config);
        config.effective.push(Effective { key: setting.key, value, source });
    }
    config.check_sockets()?;
    if config.proxy_socket.is_some() != config.proxy_definition.is_some() {
        return Err(ConfigError::HalfAProxy);
    }
    http::check(&config)?;
    Ok(config)
}

/// What was given for a flag.
fn flags(matches: &ArgMatches, flag: &'static str) -> Result<Option<Vec<String>>, ConfigError> {
    // An unknown id: a command that was built without our arguments.
    let Ok(Some(values)) = matches.try_get_many::<OsString>(flag) else { return Ok(None) };
    let text = |value: &OsString| {
        let text = value.to_str().map(str::to_owned);
        text.ok_or_else(|| ConfigError::NotText { origin: Source::Flag(flag).to_string() })
    };
    values.map(text).collect::<Result<_, _>>().map(Some)
}

/// A variable; an empty one is none, as compose files pass `${NAME:-}`.
fn variable(env: Environment<'_>, name: &str) -> Result<Option<String>, ConfigError> {
    match env(name).filter(|value| !value.is_empty()).map(OsString::into_string) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text)),
        Some(Err(_)) => Err(ConfigError::NotText { origin: format!("env {name}") }),
    }
}

/// The variables of a setting, the first of which counts.
fn names(setting: &Setting) -> impl Iterator<Item = &'static str> {
    let also = ALSO.iter().find(|(key, _)| *key == setting.key);
    std::iter::once(setting.env).chain(also.into_iter().flat_map(|(_, names)| *names).copied())
}

fn from_env(
    setting: &Setting,
    env: Environment<'_>,
) -> Result<Option<(String, &'static str)>, ConfigError> {
    for name in names(setting) {
        if let Some(text) = variable(env, name)? {
            return Ok(Some((text, name)));
        }
    }
    Ok(None)
}

fn default(
    setting: &Setting,
    env: Environment<'_>,
    config: &Config,
    uid: u32,
) -> Result<Option<Given<'static>>, ConfigError> {
    let text = match setting.default {
        Initial::Unset => return Ok(None),
        Initial::Text(text) => text.to_owned(),
        Initial::Computed(_, compute) => {
            let variable = |name: &str| variable(env, name);
            compute(&variable, config, uid)?
        }
    };
    if text.is_empty() {
        return Ok(None);
    }
    Ok(Some(Given::Texts(vec![text])))
}

fn bad(
    setting: &Setting,
    given: &Given<'_>,
    source: &Source,
    wrong: Wrong,
    file: Option<&file::File>,
) -> ConfigError {
    let origin = match (source, wrong.at, file) {
        // The line of the very element, not of the setting that holds it.
        (Source::File { path, .. }, Some(at), Some(file)) => {
            Source::File { path: path.clone(), line: file.line(at) }.to_string()
        }
        _ => source.to_string(),
    };
    let value = wrong.value.unwrap_or_else(|| given.to_string());
    ConfigError::BadValue { setting: setting.key, value, origin, expected: wrong.expected }
}

impl Config {
    /// Every setting, its value and where it came from.
    #[cfg(test)]
    pub(crate) fn origins(&self) -> &[Effective] {
        &self.effective
    }

    /// A TOML file with the same meaning, each line with its origin.
    pub(crate) fn render(&self) -> String {
        let line = |effective: &Effective| match &effective.value {
            Some(value) => format!("{} = {value}", effective.key),
            None => format!("# {} is unset", effective.key),
        };
        let lines: Vec<String> = self.effective.iter().map(line).collect();
        let width =
            lines.iter().map(|line| line.chars().count()).filter(|width| *width <= 60).max();
        let width = width.unwrap_or_default();
        let with_source = |(line, effective): (&String, &Effective)| {
            format!("{line:width$}  # {}\n", effective.source)
        };
        lines.iter().zip(&self.effective).map(with_source).collect()
    }

    /// No two sockets may have one path: the second would unlink the first.
    fn check_sockets(&self) -> Result<(), ConfigError> {
        let mut paths = vec![&self.socket, &self.control_socket];
        paths.extend(self.listen.iter().map(|listen| &listen.path));
        paths.extend(&self.proxy_socket);
        paths.sort();
        let twice = paths.windows(2).find(|pair| pair.first() == pair.last());
        match twice.and_then(|pair| pair.first()) {
            Some(path) => Err(ConfigError::SocketTwice { path: path.to_path_buf() }),
            None => Ok(()),
        }
    }
}
