//! Tests of the configuration as a whole.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::types::ListenSpec;
use super::*;

/// Reads flags and variables; the file is one of the flags.
fn read(flags: &[&str], env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let command = clap::Command::new("test").no_binary_name(true).args(arguments());
    let matches = command.try_get_matches_from(flags).unwrap();
    let variable = |name: &str| {
        // A HOME, so that the tests do not depend on who runs them.
        let known = env.iter().chain(&[("HOME", "/home/u")]).find(|(known, _)| *known == name);
        known.map(|(_, value)| OsString::from(value))
    };
    load(&matches, &variable)
}

fn with_file(text: &str, flags: &[&str]) -> (Result<Config, ConfigError>, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().display().to_string();
    let all = [&["--config", &path], flags].concat();
    (read(&all, &[]), path)
}

fn error(result: Result<Config, ConfigError>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

fn origin(config: &Config, key: &str) -> String {
    let found = config.origins().iter().find(|effective| effective.key == key).unwrap();
    format!("{} {}", found.value.as_deref().unwrap_or("unset"), found.source)
}

#[test]
fn the_table_is_complete_and_unambiguous() {
    let unique = |names: Vec<&str>| {
        let count = names.len();
        assert_eq!(names.into_iter().collect::<BTreeSet<_>>().len(), count);
    };
    unique(SETTINGS.iter().map(|setting| setting.key).collect());
    unique(SETTINGS.iter().map(|setting| setting.flag).chain(["config"]).collect());
    let also = ALSO.iter().flat_map(|(_, names)| *names).copied();
    unique(SETTINGS.iter().map(|setting| setting.env).chain(["TOOL_CONFIG"]).chain(also).collect());
    assert!(ALSO.iter().all(|(key, _)| SETTINGS.iter().any(|setting| setting.key == *key)));
    let from_seed = [
        "STATE_DIR",
        "TOOLS_DIR",
        "RESTRICTED_DIR",
        "WORKSPACE",
        "TOOL_LOG",
        "TOOL_SERVER_HOST",
        "TOOL_SERVER_PORT",
        "CORS_ORIGINS",
        "RATE_LIMIT_WINDOW_MS",
        "RATE_LIMIT_MAX",
        "REQUEST_TIMEOUT",
        "MAX_REQUEST_SIZE",
        "LOGGING_ENABLED",
        "ENABLE_HELMET",
    ];
    for Setting { key, flag, env, help, .. } in SETTINGS {
        assert_eq!(*flag, key.replace(['.', '_'], "-"));
        let derived = format!("TOOL_{}", key.replace('.', "_").to_uppercase());
        assert!(*env == derived || from_seed.contains(env), "{key}: {env}");
        assert!(help.len() > 15 && !help.ends_with('.'), "{key}: one sentence of help");
    }
    assert_eq!(arguments().len(), SETTINGS.len() + 1);
    clap::Command::new("test").args(arguments()).debug_assert();
}

#[test]
fn defaults_are_what_the_design_says() {
    let config = read(&[], &[]).unwrap();
    assert_eq!(config.socket, Path::new("/run/sockets/tool.sock"));
    assert_eq!((config.socket_mode, config.socket_group.as_deref()), (0o660, None));
    assert_eq!(config.tools_dir, Path::new("/app/tools/tools.d"));
    assert_eq!(config.restricted_dir, Path::new("/app/restricted"));
    assert_eq!(config.workspace, [Path::new("/workspace")]);
    assert_eq!((config.limits.calls, config.limits.waiting_bytes), (256, 67_108_864));
    assert_eq!(config.timeouts.tool, Duration::from_secs(300));
    assert_eq!(config.registry.debounce, Duration::from_millis(50));
    assert_eq!((config.peers_uids.as_ref(), config.require_rules), (None, false));
    assert_eq!((config.log_level, config.cgroup.clone()), (LogLevel::Info, Cgroup::Off));
    assert_eq!(config.control_socket, config.state_dir.join("control.sock"));
    assert_eq!(config.origins().len(), SETTINGS.len());
}

#[test]
fn an_instance_has_its_own_socket() {
    let config = read(&[], &[("INSTANCE_ID", "7f")]).unwrap();
    assert_eq!(config.socket, Path::new("/run/sockets/tool-7f.sock"));
    let message = error(read(&[], &[("INSTANCE_ID", "../x")]));
    assert!(message.contains("env INSTANCE_ID") && message.contains("without a slash"));
    let both = [("INSTANCE_ID", "7f"), ("TOOL_SOCKET", "/s")];
    assert_eq!(read(&[], &both).unwrap().socket, Path::new("/s"));
}

#[test]
fn an_ordinary_user_keeps_its_state_at_home() {
    let compute = SETTINGS.iter().find(|setting| setting.key == "state_dir").unwrap().default;
    let Initial::Computed(_, compute) = compute else { panic!("computed") };
    let home = |home: Option<&str>, uid| {
        let variable = |_: &str| Ok(home.map(str::to_owned));
        compute(&variable, &Config::default(), uid).map_err(|error| error.to_string())
    };
    assert_eq!(home(None, 0).unwrap(), "/var/lib/tool-server");
    assert_eq!(home(Some("/home/u"), 1_000).unwrap(), "/home/u/.local/state/tool-server");
    assert!(home(None, 1_000).unwrap_err().contains("say --state-dir"));
}

#[test]
fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "workspace = [\"/file\"]\n\n[limits]\ncalls = 1\n[timeouts]\ntool = 1\n";
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().display().to_string();
    let env = [("TOOL_CONFIG", path.as_str()), ("WORKSPACE", "/env"), ("TOOL_LIMITS_CALLS", "2")];
    let config = read(&["--workspace", "/flag"], &env).unwrap();
    assert_eq!(config.workspace, [Path::new("/flag")]);
    assert_eq!(origin(&config, "workspace"), "[\"/flag\"] flag --workspace");
    assert_eq!(origin(&config, "limits.calls"), "2 env TOOL_LIMITS_CALLS");
    assert_eq!(origin(&config, "timeouts.tool"), format!("1 file {path}:6"));
    assert_eq!(origin(&config, "timeouts.grace"), "2 default");
    assert_eq!(origin(&config, "links"), "unset default");
    // As compose files pass `${WORKSPACE:-}`.
    let empty = read(&[], &[("WORKSPACE", "")]).unwrap();
    assert_eq!(origin(&empty, "workspace"), "[\"/workspace\"] default");
}

#[test]
fn flags_are_read_before_and_after_the_verb() {
    let command = || {
        let verb = clap::Command::new("serve");
        clap::Command::new("test").no_binary_name(true).args(arguments()).subcommand(verb)
    };
    for flags in [["--limits-calls=7", "serve"], ["serve", "--limits-calls=7"]] {
        let matches = command().try_get_matches_from(flags).unwrap();
        let home = |name: &str| (name == "HOME").then(|| OsString::from("/home/u"));
        assert_eq!(load(&matches, &home).unwrap().limits.calls, 7);
    }
}

#[test]
fn every_kind_of_value_is_read_from_text() {
    let config = read(
        &[
            "--socket-mode=0600",
            "--workspace=/a:/b",
            "--workspace=/c",
            "--path-map=/host/a=/a:/host/b=/b",
            "--peers-uids=1000,1001",
            "--definitions-owner=root",
            "--require-rules",
            "--env-inherit=GITHUB_TOKEN:LC_*",
            "--timeouts-tool=0.5",
            "--timeouts-grace=0",
            "--registry-watch=poll",
            "--cgroup=/sys/fs/cgroup/x",
            "--log-level=debug",
            "--links=relative",
            "--listen=/l/git.sock,mode=0666,group=staff,tools=git:gh",
            "--listen=/l/all.sock",
        ],
        &[],
    )
    .unwrap();
    assert_eq!(config.socket_mode, 0o600);
    assert_eq!(config.workspace, ["/a", "/b", "/c"].map(Path::new));
    assert_eq!(config.path_map[1].server, Path::new("/b"));
    assert_eq!(config.peers_uids.as_deref(), Some(&[1_000, 1_001][..]));
    assert_eq!((config.definitions_owner, config.require_rules), (Some(0), true));
    assert_eq!(config.env_inherit, ["GITHUB_TOKEN", "LC_*"]);
    assert_eq!(config.timeouts.tool, Duration::from_millis(500));
    assert_eq!(config.timeouts.grace, Duration::ZERO);
    assert_eq!(config.registry.watch, WatchMode::Poll);
    assert_eq!(config.cgroup, Cgroup::Path("/sys/fs/cgroup/x".into()));
    assert_eq!(config.log_level, LogLevel::Debug);
    assert!(config.links.as_ref().unwrap().is_absolute());
    let git = ListenSpec {
        path: "/l/git.sock".into(),
        mode: 0o666,
        group: Some("staff".into()),
        tools: Some(vec!["git".into(), "gh".into()]),
    };
    let all = ListenSpec { path: "/l/all.sock".into(), mode: 0o660, group: None, tools: None };
    assert_eq!(config.listen, [git.clone(), all.clone()]);
    let text = "/l/git.sock,mode=0666,group=staff,tools=git:gh;/l/all.sock";
    assert_eq!(read(&[], &[("TOOL_LISTEN", text)]).unwrap().listen, [git, all]);
    assert!(!read(&["--require-rules=false"], &[]).unwrap().require_rules);
}

#[test]
fn every_kind_of_value_is_read_from_a_file_and_rendered_as_one() {
    let text = r#"
        socket = "/s/\"quoted\".sock"
        socket_mode = 0o640
        workspace = "/single"
        path_map = ["/host=/server"]
        peers.uids = [1000, 1001]
        definitions_owner = "root"
        require_rules = true
        cgroup = "off"
        [env]
        inherit = ["A*"]
        [timeouts]
        tool = 1.25
        frame = 9
        [log]
        format = "json"
        [[listen]]
        path = "/l/git.sock"
        mode = "0600"
        tools = ["git"]
        [[listen]]
        path = "/l/gh.sock"
        group = "staff"
    "#;
    let config = with_file(text, &[]).0.unwrap();
    assert_eq!(config.socket, Path::new("/s/\"quoted\".sock"));
    assert_eq!(config.socket_mode, 0o640);
    assert_eq!(config.workspace, [Path::new("/single")]);
    assert_eq!(config.timeouts.tool, Duration::from_millis(1_250));
    assert_eq!(config.listen.len(), 2);
    assert_eq!((config.listen[0].mode, config.listen[1].group.as_deref()), (0o600, Some("staff")));
    let rendered = config.render();
    assert!(rendered.contains("# links is unset "), "{rendered}");
    let (again, path) = with_file(&rendered, &[]);
    let again = again.unwrap();
    let values = |config: &Config| -> Vec<(&str, Option<String>)> {
        config.origins().iter().map(|found| (found.key, found.value.clone())).collect()
    };
    assert_eq!(values(&again), values(&config));
    let line = 1 + rendered.lines().position(|line| line.starts_with("timeouts.tool")).unwrap();
    assert_eq!(origin(&again, "timeouts.tool"), format!("1.25 file {path}:{line}"));
    assert!(
        rendered.lines().any(|line| line.starts_with("cgroup = \"off\"") && line.ends_with(":9"))
    );
}

#[test]
fn what_is_wrong_in_the_file_is_named_with_its_line() {
    let cases = [
        ("socket = ", 1, ""),
        ("\nsockt = \"/x\"", 2, "sockt is not a setting; `tool-server config` lists them all"),
        ("[limits]\ncalls = 1\ncallz = 2", 3, "limits.callz is not a setting"),
        ("limits = 5", 1, "limits is not a setting"),
        ("[limits]\ncalls = 1\ncalls = 2", 3, "duplicate key"),
    ];
    for (text, line, expected) in cases {
        let (result, path) = with_file(text, &[]);
        let message = error(result);
        assert!(message.starts_with(&format!("{path}:{line}: ")), "{message}");
        assert!(message.contains(expected), "{message}");
    }
    let values = [
        ("\nsocket = 5", 2, "socket = 5 (file", "expected a path of at most 107 bytes"),
        ("socket_mode = 660", 1, "socket_mode = 660 (", "a file mode in octal"),
        ("workspace = [\n\"/a\",\n\"\"]", 3, "workspace = \"\"", "one or more directories"),
        ("[timeouts]\ntool = 0", 2, "timeouts.tool = 0", "seconds, more than 0"),
        ("[limits]\ncalls = -1", 2, "limits.calls = -1", "a whole number, at least 1"),
        ("require_rules = \"yes\"", 1, "require_rules = \"yes\"", "true or false"),
        ("[log]\nlevel = \"loud\"", 2, "log.level = \"loud\"", "one of error, warn, info"),
        ("[[listen]]\npath = \"/x\"\nmod = 1", 3, "listen = [[listen]]", "path, mode, group or"),
        ("[[listen]]\nmode = \"0660\"", 1, "listen = [[listen]]", "a path in each [[listen]]"),
    ];
    for (text, line, value, expected) in values {
        let (result, path) = with_file(text, &[]);
        let message = error(result);
        assert!(message.contains(&format!("(file {path}:{line}): expected ")), "{message}");
        assert!(message.starts_with(value) && message.contains(expected), "{message}");
        assert!(!message.contains('\n'), "one line: {message}");
    }
    assert!(error(read(&["--config", "/no/such"], &[])).starts_with("cannot read the settings"));
}

#[test]
fn what_is_wrong_in_text_is_named_with_its_place() {
    let cases: [(&[&str], &str); 10] = [
        (
            &["--limits-calls=many"],
            "limits.calls = \"many\" (flag --limits-calls): expected a whole",
        ),
        (&["--timeouts-tool=1e3"], "timeouts.tool = \"1e3\" "),
        (&["--timeouts-tool=604801"], "at most 7 days"),
        (&["--socket-mode=999"], "a file mode in octal"),
        (&["--socket-mode=1777"], "a file mode in octal"),
        (&["--path-map=/a=b"], "path_map = \"/a=b\" (flag --path-map): expected a list of CLIENT"),
        (&["--listen=/a,colour=red"], "expected PATH[,mode=0660]"),
        (&["--listen=/a,mode=rw"], "listen = \"rw\" (flag --listen): expected a file mode"),
        (&["--env-inherit=A=B"], "env.inherit = \"A=B\""),
        (&["--definitions-owner=no-such-user"], "a uid, or the name of a user"),
    ];
    for (flags, expected) in cases {
        let message = error(read(flags, &[]));
        assert!(message.contains(expected), "{message}");
    }
    let long = format!("/{}", "x".repeat(107));
    assert!(error(read(&["--socket", &long], &[])).contains("at most 107 bytes"));
    let message = error(read(&[], &[("TOOL_LIMITS_CALLS", "x\ny")]));
    assert!(message.starts_with("limits.calls = \"x\\ny\" (env TOOL_LIMITS_CALLS)"), "{message}");
}

#[test]
fn sockets_have_paths_of_their_own() {
    let message = error(read(&["--listen=/s", "--socket=/s"], &[]));
    assert!(message.starts_with("two sockets have the path /s"), "{message}");
}

#[test]
fn settings_that_are_not_utf8_are_refused() {
    use std::os::unix::ffi::OsStringExt;
    let matches = clap::Command::new("test").args(arguments()).get_matches_from(["test"]);
    let variable = |name: &str| match name {
        "WORKSPACE" => Some(OsString::from_vec(vec![b'/', 0xff])),
        "HOME" => Some(OsString::from("/home/u")),
        _ => None,
    };
    let message = error(load(&matches, &variable));
    assert_eq!(message, "env WORKSPACE: is not UTF-8; settings are text");
}

#[test]
fn http_is_off_until_something_of_it_is_said() {
    assert_eq!(read(&[], &[]).unwrap().http.listen, None);
    let at = |flags: &[&str], env: &[(&str, &str)]| {
        read(flags, env).unwrap().http.listen.map(|address| address.to_string())
    };
    let open = ["--insecure-no-auth"];
    assert_eq!(at(&open, &[]).as_deref(), Some("127.0.0.1:3001"));
    assert_eq!(at(&["--http-token-file=/t"], &[]).as_deref(), Some("127.0.0.1:3001"));
    let seeds = [("TOOL_SERVER_PORT", "8080"), ("TOOL_SERVER_HOST", "::1")];
    assert_eq!(at(&open, &seeds).as_deref(), Some("[::1]:8080"));
    let both = [("TOOL_SERVER_PORT", "8080"), ("TOOL_HTTP_LISTEN", "127.0.0.2:1")];
    assert_eq!(at(&open, &both).as_deref(), Some("127.0.0.2:1"));
    let wrong = |flags: &[&str], env: &[(&str, &str)]| error(read(flags, env));
    assert!(
        wrong(&[], &[("TOOL_SERVER_PORT", "3001")]).contains("need tokens: set http.token_file")
    );
    assert!(wrong(&["--insecure-no-auth", "--http-token-file=/t"], &[]).contains("exclude"));
    let others = wrong(&open, &[("TOOL_SERVER_HOST", "0.0.0.0")]);
    assert!(others.contains("loopback addresses alone") && others.contains("0.0.0.0:3001"));
}

#[test]
fn settings_of_http_are_validated_and_named() {
    for (name, wrong, right) in [
        ("TOOL_SERVER_PORT", &["0", "65536", "http", "-1"][..], "65535"),
        ("TOOL_SERVER_HOST", &["example.com", "300.0.0.1"], "localhost"),
        ("RATE_LIMIT_WINDOW_MS", &["999", "0", "x"], "1000"),
        ("RATE_LIMIT_MAX", &["0", "-1", "many"], "1"),
        ("REQUEST_TIMEOUT", &["0", "-5", "1s"], "1"),
        ("MAX_REQUEST_SIZE", &["0", "50 apples", "-1mb"], "10mb"),
        ("LOGGING_ENABLED", &["maybe"], "false"),
        ("ENABLE_HELMET", &["maybe"], "false"),
        ("LOG_LEVEL", &["loud"], "warn"),
        ("CORS_ORIGINS", &["*", "example.com", "https://a/"], "https://a,http://b:1"),
        ("TOOL_HTTP_HOSTS", &["a/b", "x:80"], "tools,10.0.0.7"),
    ] {
        for value in wrong {
            let message = error(read(&["--insecure-no-auth"], &[(name, value)]));
            assert!(message.contains(&format!("env {name}")), "{message}");
            assert!(message.contains(value), "{message}");
        }
        read(&["--insecure-no-auth"], &[(name, right)]).unwrap();
    }
}

#[test]
fn names_of_other_tool_servers_count_where_ours_are_unset() {
    let root = |env: &[(&str, &str)]| origin(&read(&[], env).unwrap(), "workspace");
    let all = [("WORKSPACE_ROOT", "/c"), ("PROJECT_ROOT", "/b"), ("WORKSPACE", "/a")];
    assert_eq!(root(&all), "[\"/a\"] env WORKSPACE");
    assert_eq!(root(&all[..2]), "[\"/b\"] env PROJECT_ROOT");
    assert_eq!(root(&all[..1]), "[\"/c\"] env WORKSPACE_ROOT");
    let message = error(read(&[], &[("WORKSPACE_ROOT", "app")]));
    assert!(message.contains("\"app\" (env WORKSPACE_ROOT): expected a directory's whole path"));
    assert_eq!(
        root(&[("WORKSPACE", "a/b"), ("WORKSPACE_ROOT", "app")]),
        root(&[("WORKSPACE", "a/b")])
    );
    let level = read(&[], &[("LOG_LEVEL", "debug")]).unwrap();
    assert_eq!(origin(&level, "log.level"), "\"debug\" env LOG_LEVEL");
}
