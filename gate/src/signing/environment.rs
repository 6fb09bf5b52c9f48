//! The variables that make git ask for signatures here. They are for convenience: git
//! that does not heed them has no key to sign with.

use std::ffi::CString;

/// The variable that tells a call's processes which descriptor to ask by.
pub const BELL: &str = "TOOL_SIGN";
/// What git writes into the file of the key that it names; nobody reads it.
const KEY: &str = "key::the-brokers";

/// Adds to an environment (`NAME=value`) what makes git sign with `program`, which
/// rings the bell of that number. Settings that are there already stay.
pub fn configure(environment: &mut Vec<CString>, program: &str, bell: i32) {
    const COUNT: &[u8] = b"GIT_CONFIG_COUNT=";
    let place = environment.iter().position(|one| one.as_bytes().starts_with(COUNT));
    let count = place.and_then(|place| environment.get(place)).and_then(|one| {
        std::str::from_utf8(one.as_bytes().get(COUNT.len()..)?).ok()?.parse::<u32>().ok()
    });
    let first = count.unwrap_or(0);
    let pairs = [("gpg.format", "ssh"), ("gpg.ssh.program", program), ("user.signingKey", KEY)];
    let mut lines = vec![format!("{BELL}={bell}")];
    for (number, (key, value)) in (first..).zip(pairs) {
        lines.push(format!("GIT_CONFIG_KEY_{number}={key}"));
        lines.push(format!("GIT_CONFIG_VALUE_{number}={value}"));
    }
    lines.push(format!("GIT_CONFIG_COUNT={}", first.saturating_add(3)));
    if let Some(place) = place {
        environment.remove(place);
    }
    // Names of ours that came from elsewhere would be the ones that count.
    let name = |line: &str| line.split_inclusive('=').next().unwrap_or_default().to_owned();
    let names: Vec<String> = lines.iter().map(|line| name(line)).collect();
    environment.retain(|one| !names.iter().any(|name| one.as_bytes().starts_with(name.as_bytes())));
    environment.extend(lines.into_iter().filter_map(|line| CString::new(line).ok()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(before: &[&str]) -> Vec<String> {
        let mut environment: Vec<CString> =
            before.iter().map(|line| CString::new(*line).unwrap()).collect();
        configure(&mut environment, "/bin/sign", 99);
        environment.into_iter().map(|line| line.into_string().unwrap()).collect()
    }

    #[test]
    fn settings_that_are_there_stay() {
        assert_eq!(
            configured(&["A=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=a.b", "TOOL_SIGN=3"]),
            [
                "A=1",
                "GIT_CONFIG_KEY_0=a.b",
                "TOOL_SIGN=99",
                "GIT_CONFIG_KEY_1=gpg.format",
                "GIT_CONFIG_VALUE_1=ssh",
                "GIT_CONFIG_KEY_2=gpg.ssh.program",
                "GIT_CONFIG_VALUE_2=/bin/sign",
                "GIT_CONFIG_KEY_3=user.signingKey",
                "GIT_CONFIG_VALUE_3=key::the-brokers",
                "GIT_CONFIG_COUNT=4",
            ]
        );
        // What was not in force stays out of it.
        let alone = configured(&["GIT_CONFIG_KEY_0=core.pager", "GIT_CONFIG_VALUE_0=sh"]);
        assert!(alone.contains(&"GIT_CONFIG_KEY_0=gpg.format".to_owned()), "{alone:?}");
        assert!(!alone.iter().any(|line| line.contains("core.pager") || line.ends_with("=sh")));
    }
}
