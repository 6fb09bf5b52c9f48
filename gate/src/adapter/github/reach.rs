//! Whether a query stays with the repositories that it names.
//!
//! Owns: which fields lead from a repository to what is its own, and which name
//! somebody or something else and lead no further. What is on neither list may lead to
//! any other repository: of a fork, of an owner, of whatever refers to an issue. Must
//! not: know GitHub's types; a field is what its name says wherever it stands.

use std::collections::{BTreeMap, BTreeSet};

use apollo_parser::cst::{FragmentDefinition, Selection, SelectionSet};

/// What a selection is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    /// The query itself.
    Top,
    /// A repository that was named, or what is its own.
    Own,
    /// Something else: its names, and nothing that it has.
    Named,
}

/// Fields of a repository and of what is its own that are its own again. What has no
/// fields beneath it is a value, and leads nowhere.
const OWN: [&str; 50] = [
    "autoMergeRequest",
    "baseRef",
    "branchProtectionRule",
    "checkSuite",
    "codeOfConduct",
    "comments",
    "commit",
    "commits",
    "contactLinks",
    "contexts",
    "defaultBranchRef",
    "edges",
    "entries",
    "files",
    "fundingLinks",
    "history",
    "issue",
    "issueOrPullRequest",
    "issueTemplates",
    "issues",
    "label",
    "labels",
    "languages",
    "latestRelease",
    "latestReviews",
    "licenseInfo",
    "mergeCommit",
    "milestone",
    "milestones",
    "node",
    "nodes",
    "object",
    "pageInfo",
    "potentialMergeCommit",
    "primaryLanguage",
    "projectCards",
    "pullRequest",
    "pullRequests",
    "reactionGroups",
    "ref",
    "refs",
    "release",
    "releaseAssets",
    "releases",
    "repositoryTopics",
    "reviewRequests",
    "reviews",
    "statusCheckRollup",
    "target",
    "topic",
];

/// Fields that name somebody or something else.
const NAMED: [&str; 25] = [
    "app",
    "assignableUsers",
    "assignees",
    "author",
    "column",
    "committer",
    "creator",
    "enabledBy",
    "headRef",
    "headRepository",
    "headRepositoryOwner",
    "mentionableUsers",
    "mergedBy",
    "organization",
    "owner",
    "parent",
    "project",
    "requestedReviewer",
    "suggestedActors",
    "templateRepository",
    "uploader",
    "user",
    "users",
    "workflow",
    "workflowRun",
];

/// What is told of those.
const NAMES: [&str; 16] = [
    "__typename",
    "avatarUrl",
    "databaseId",
    "date",
    "email",
    "endCursor",
    "hasNextPage",
    "id",
    "login",
    "name",
    "nameWithOwner",
    "nodes",
    "pageInfo",
    "slug",
    "totalCount",
    "url",
];

/// Fields at the top that are about no repository, whatever is asked of them.
pub(super) const ABOUT_NONE: [&str; 4] = ["__schema", "__type", "__typename", "rateLimit"];

/// Whether all that is asked for, through fragments, stays with the repositories that
/// are named at the top.
pub(super) fn stays(
    selection: &SelectionSet,
    fragments: &BTreeMap<String, FragmentDefinition>,
) -> bool {
    let mut seen = BTreeSet::new();
    // No recursion: a chain of fragments may be as long as the document.
    let mut next = vec![(selection.clone(), Tier::Top)];
    while let Some((selection, tier)) = next.pop() {
        for one in selection.selections() {
            match one {
                Selection::Field(field) => {
                    let Some(name) = field.name() else { return false };
                    let inner = field.selection_set();
                    match beneath(tier, &name.text(), inner.is_some()) {
                        Leads::Nowhere => {}
                        Leads::To(tier) => next.extend(inner.map(|inner| (inner, tier))),
                        Leads::Elsewhere => return false,
                    }
                }
                Selection::InlineFragment(fragment) => {
                    next.extend(fragment.selection_set().map(|inner| (inner, tier)));
                }
                Selection::FragmentSpread(spread) => {
                    let name = spread.fragment_name().and_then(|name| name.name());
                    let name = name.map(|name| name.text().to_string()).unwrap_or_default();
                    let fragment = fragments.get(&name).and_then(FragmentDefinition::selection_set);
                    if seen.insert((name, tier)) {
                        next.extend(fragment.map(|inner| (inner, tier)));
                    }
                }
            }
        }
    }
    true
}

enum Leads {
    Nowhere,
    To(Tier),
    Elsewhere,
}

fn beneath(tier: Tier, name: &str, has_fields: bool) -> Leads {
    match tier {
        Tier::Top if ABOUT_NONE.contains(&name) => Leads::Nowhere,
        Tier::Top if name == "repository" => Leads::To(Tier::Own),
        Tier::Top if name == "viewer" => Leads::To(Tier::Named),
        Tier::Own if !has_fields => Leads::Nowhere,
        Tier::Own if OWN.contains(&name) => Leads::To(Tier::Own),
        Tier::Own | Tier::Named if NAMED.contains(&name) => Leads::To(Tier::Named),
        Tier::Named if NAMES.contains(&name) => Leads::To(Tier::Named),
        _ => Leads::Elsewhere,
    }
}
