//! Refspecs of a push.
//!
//! Owns: which refs of the other side a word names, under every name that a
//! pattern may have for them. Must not: look into a repository.

use crate::facts::Text;

/// What a push does to refs of the other side.
#[derive(Debug, Default)]
pub(super) struct Refs {
    pub(super) names: Vec<Text<'static>>,
    pub(super) tags: Vec<Text<'static>>,
    /// There are more that cannot be named.
    pub(super) unknown: bool,
    pub(super) force: bool,
    pub(super) delete: bool,
}

impl Refs {
    /// Takes one refspec; `head` is the branch that is checked out.
    pub(super) fn take(&mut self, spec: &[u8], head: Option<&[u8]>) {
        if spec.starts_with(b"^") {
            // It only takes away.
            return;
        }
        let plain = spec.strip_prefix(b"+").unwrap_or(spec);
        self.force |= plain.len() != spec.len();
        let colon = plain.iter().rposition(|byte| *byte == b':');
        let Some((source, target)) = colon.and_then(|at| plain.split_at_checked(at)) else {
            return self.same_name(plain, head);
        };
        let target = target.strip_prefix(b":").unwrap_or(target);
        match (source.is_empty(), target.is_empty()) {
            // `:` is every branch that both sides have.
            (_, true) => self.unknown = true,
            (true, false) => {
                self.delete = true;
                self.name(target);
            }
            (false, false) => self.name(target),
        }
    }

    /// `name`, for `name:name`.
    fn same_name(&mut self, name: &[u8], head: Option<&[u8]>) {
        match (name, head) {
            (b"HEAD" | b"@", Some(branch)) => self.branch(branch),
            (b"HEAD" | b"@", None) => self.unknown = true,
            _ => self.name(name),
        }
    }

    /// The branch of that short name.
    pub(super) fn branch(&mut self, name: &[u8]) {
        self.name(&[b"refs/heads/", name].concat());
    }

    /// A ref as somebody writes it.
    pub(super) fn name(&mut self, name: &[u8]) {
        // What only git can resolve.
        let revision = name.windows(2).any(|two| two == b"@{")
            || name.iter().any(|byte| matches!(byte, b'~' | b'^' | b':'));
        if revision || matches!(name, b"" | b"HEAD" | b"@") {
            self.unknown = true;
            return;
        }
        let full = |beginning: &[u8], rest: &[u8]| [beginning, rest].concat();
        let text = if let Some(branch) = name.strip_prefix(b"refs/heads/") {
            Text::new(branch.to_vec()).or(name)
        } else if name.starts_with(b"refs/") {
            Text::new(name.to_vec())
        } else {
            // `heads/x` is the branch x where there is one, else heads/x.
            let text = Text::new(name.to_vec()).or(full(b"refs/heads/", name));
            match (name.strip_prefix(b"heads/"), name.strip_prefix(b"tags/")) {
                (Some(branch), _) => text.or(branch).or(full(b"refs/", name)),
                (_, Some(_)) => text.or(full(b"refs/", name)),
                _ => text,
            }
        };
        let open = name.contains(&b'*');
        let closed = |text: Text<'static>| if open { text.open() } else { text };
        let tag = text.names().find_map(|name| name.strip_prefix(b"refs/tags/"));
        self.tags.extend(tag.map(|tag| closed(Text::new(tag.to_vec()))));
        self.names.push(closed(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(texts: &[Text<'_>]) -> Vec<String> {
        let each = |text: &Text<'_>| {
            let names: Vec<_> = text.names().map(|name| name.escape_ascii().to_string()).collect();
            names.join("|") + if text.is_open() { "…" } else { "" }
        };
        texts.iter().map(each).collect()
    }

    #[test]
    fn a_refspec_names_what_it_changes_by_every_name() {
        for (spec, names, tags, flags) in [
            ("main", "main|refs/heads/main", "", ""),
            ("refs/heads/main", "main|refs/heads/main", "", ""),
            ("x:main", "main|refs/heads/main", "", ""),
            ("+x:main", "main|refs/heads/main", "", "force"),
            (":main", "main|refs/heads/main", "", "delete"),
            ("heads/main", "heads/main|refs/heads/heads/main|main|refs/heads/main", "", ""),
            ("tags/v1", "tags/v1|refs/heads/tags/v1|refs/tags/v1", "v1", ""),
            ("refs/tags/v1", "refs/tags/v1", "v1", ""),
            ("refs/heads/*:refs/heads/*", "*|refs/heads/*…", "", ""),
            ("HEAD", "feature|refs/heads/feature", "", ""),
            ("@", "feature|refs/heads/feature", "", ""),
            ("HEAD:x", "x|refs/heads/x", "", ""),
            ("a:b:c", "c|refs/heads/c", "", ""),
            (":", "", "", "unknown"),
            ("+:", "", "", "unknown force"),
            ("x:", "", "", "unknown"),
            ("", "", "", "unknown"),
            ("x:HEAD", "", "", "unknown"),
            ("@{-1}", "", "", "unknown"),
            ("main~1", "", "", "unknown"),
            ("^main", "", "", ""),
        ] {
            let mut refs = Refs::default();
            refs.take(spec.as_bytes(), Some(b"feature"));
            assert_eq!(shown(&refs.names).concat(), names, "{spec}");
            assert_eq!(shown(&refs.tags).concat(), tags, "{spec}");
            let all = [(refs.unknown, "unknown"), (refs.force, "force"), (refs.delete, "delete")];
            let said: Vec<_> = all.iter().filter(|flag| flag.0).map(|flag| flag.1).collect();
            assert_eq!(said.join(" "), flags, "{spec}");
        }
        let mut refs = Refs::default();
        refs.take(b"HEAD", None);
        assert!(refs.unknown && refs.names.is_empty());
    }
}
