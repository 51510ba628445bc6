//! The attacks by what `.git` contains, one row each.

use super::attacks::Trust::{Activates, Lists, Nothing};
use super::attacks::{Attack, row};
use super::planter::Planter;

/// What the main repository's `.git` names.
pub const GIT: &[Attack] = &[
    row(
        "git-filter",
        Activates("gitSetting", "filter.x.clean"),
        |planter| {
            planter.git_setting("filter.x.clean", &format!("{}; cat", planter.trap()));
            planter.git_setting("filter.x.smudge", "cat");
        },
    ),
    row(
        "git-textconv",
        Activates("gitSetting", "diff.x.textconv"),
        |planter| {
            let textconv = format!("f() {{ {}; cat \"$1\"; }}; f", planter.trap());
            planter.git_setting("diff.x.textconv", &textconv);
        },
    ),
    row(
        "git-diff-command",
        Activates("gitSetting", "diff.c.command"),
        |planter| {
            planter.git_setting("diff.c.command", &format!("{}; true", planter.trap()));
        },
    ),
    row(
        "git-diff-external",
        Activates("gitSetting", "diff.external"),
        |planter| {
            planter.git_setting("diff.external", &format!("{}; true", planter.trap()));
        },
    ),
    row("git-alias", Activates("gitSetting", "alias.statusx"), |planter| {
        planter.git_setting("alias.statusx", &format!("!{}", planter.trap()));
    }),
    row("git-editor", Lists("gitSetting", "core.editor"), |planter| {
        planter.git_setting("core.editor", &format!("{}; true", planter.trap()));
    }),
    row(
        "git-hook",
        Activates("gitSetting", "hooks/pre-commit"),
        |planter| {
            planter.program(".git/hooks/pre-commit");
        },
    ),
    row("git-fsmonitor", Nothing, |planter| {
        planter.git_setting("core.fsmonitor", &format!("{}; false", planter.trap()));
    }),
    row("git-pager", Nothing, |planter| {
        planter.git_setting("core.pager", &planter.trap());
        planter.git_setting("pager.log", &planter.trap());
    }),
    row("git-signature", Nothing, |planter| {
        planter.git_setting("log.showSignature", "true");
        planter.git_setting("gpg.program", &planter.trap());
    }),
    row("git-network", Lists("gitSetting", "core.sshcommand"), |planter| {
        planter.git_setting("core.sshCommand", &planter.trap());
        planter.git_setting("core.askPass", &planter.trap());
        planter.git_setting("credential.helper", &format!("!{}", planter.trap()));
        planter.git_setting("core.gitProxy", &planter.trap());
        planter.git_setting("remote.origin.uploadpack", &planter.trap());
        planter.git_setting("remote.origin.url", &planter.url());
    }),
    row(
        "git-merge-driver",
        Lists("gitSetting", "merge.x.driver"),
        |planter| {
            planter.git_setting("merge.x.driver", &planter.trap());
        },
    ),
    row("git-submodule-update", Nothing, |planter| {
        let text = format!(
            "[submodule \"x\"]\n\tpath = lib\n\turl = {}\n\tupdate = !{}\n",
            planter.url(),
            planter.trap()
        );
        planter.write(".gitmodules", text);
    }),
];

/// Adds a filter that fires the canary, and returns its repository.
fn with_filter<'a>(planter: &Planter<'_>, folder: &'a str) -> &'a str {
    planter.git(
        folder,
        &["config", "filter.x.clean", &format!("{}; cat", planter.trap())],
    );
    planter.git(folder, &["config", "core.fsmonitor", &planter.trap()]);
    folder
}

/// Replaces files of a repository of its own by links to a secret.
fn link_git_file(planter: &Planter<'_>, path: &str) {
    let folder = planter.inner_repository();
    let key = planter.secret(&format!("private/{}", path.replace('/', "-")));
    planter.link(key, &format!("{folder}/.git/{path}"));
}

/// Repositories in folders of the repository, each opened as a session of its own.
pub const INNER_REPOSITORIES: &[Attack] = &[
    row(
        "inner-repository",
        Activates("gitSetting", "filter.inner.clean"),
        |planter| {
            let folder = planter.inner_repository();
            planter.write(&format!("{folder}/.git/info/attributes"), "*.txt filter=inner\n");
            let filter = format!("{}; cat", planter.trap());
            planter.git(&folder, &["config", "filter.inner.clean", &filter]);
        },
    ),
    // Git stops when such a filter ends, so it has a repository of its own.
    row(
        "git-filter-process",
        Lists("gitSetting", "filter.p.process"),
        |planter| {
            let folder = planter.inner_repository();
            planter.git(&folder, &["config", "filter.p.process", &planter.trap()]);
        },
    ),
    row("git-include", Nothing, |planter| {
        let folder = planter.inner_repository();
        let text = format!("[filter \"x\"]\n\tclean = \"{}; cat\"\n", planter.trap());
        planter.write(&format!("{folder}/more"), text);
        planter.git(&folder, &["config", "include.path", "../more"]);
    }),
    row("git-hooks-path", Nothing, |planter| {
        let folder = planter.inner_repository();
        planter.program(&format!("{folder}/hooks/pre-commit"));
        planter.program(&format!("{folder}/hooks/post-index-change"));
        planter.git(&folder, &["config", "core.hooksPath", "hooks"]);
    }),
    row("git-folder-elsewhere", Nothing, |planter| {
        let folder = planter.inner_repository();
        with_filter(planter, &folder);
        let from = planter.write(&format!("{folder}/gitdir"), "");
        std::fs::remove_file(&from).unwrap();
        std::fs::rename(from.with_file_name(".git"), &from).unwrap();
        planter.write(&format!("{folder}/.git"), "gitdir: gitdir\n");
    }),
    row("git-folder-link", Nothing, |planter| {
        let folder = planter.inner_repository();
        with_filter(planter, &folder);
        let from = planter.write(&format!("{folder}/gitdir"), "");
        std::fs::remove_file(&from).unwrap();
        std::fs::rename(from.with_file_name(".git"), &from).unwrap();
        planter.link("gitdir", &format!("{folder}/.git"));
    }),
    row("git-bare", Nothing, |planter| {
        let folder = planter.inner_repository();
        planter.open_later("inner/bare-api");
        planter.git(&folder, &["clone", "-q", "--bare", ".", "../bare-api"]);
        let tree = planter.git(&folder, &["rev-parse", "--show-toplevel"]);
        planter.git("inner/bare-api", &["config", "core.bare", "false"]);
        planter.git("inner/bare-api", &["config", "core.worktree", &tree]);
        planter.git("inner/bare-api", &["config", "filter.x.clean", &planter.trap()]);
        with_filter(planter, &folder);
    }),
    row("git-pipe", Nothing, |planter| {
        let folder = planter.inner_repository();
        planter.pipe(&format!("{folder}/.git/config"));
        planter.pipe(&format!("{folder}/.git/info/exclude"));
    }),
    // What git prints about a file that it cannot parse.
    row("git-shallow", Nothing, |planter| {
        link_git_file(planter, "shallow")
    }),
    row("git-packed-refs", Nothing, |planter| {
        link_git_file(planter, "packed-refs")
    }),
    row("git-grafts", Nothing, |planter| {
        link_git_file(planter, "info/grafts")
    }),
    row("git-bisect", Nothing, |planter| {
        link_git_file(planter, "BISECT_START");
        planter.write("inner/git-bisect/.git/BISECT_LOG", "");
    }),
    row("git-merge-head", Nothing, |planter| {
        link_git_file(planter, "MERGE_HEAD")
    }),
    row("git-linked-work-tree", Nothing, |planter| {
        link_git_file(planter, "worktrees/x/gitdir");
    }),
    row("git-alternates", Nothing, |planter| {
        link_git_file(planter, "objects/info/alternates")
    }),
    // The objects of a repository of the user's own, whose commits the attacker knows or guesses.
    row("git-objects-elsewhere", Nothing, |planter| {
        let folder = planter.inner_repository();
        let private = other_repository(planter);
        let commit = planter.git(&private, &["rev-parse", "HEAD"]);
        let objects = format!("{private}/.git/objects\n");
        planter.write(&format!("{folder}/.git/objects/info/alternates"), objects);
        planter.write(&format!("{folder}/.git/refs/heads/main"), format!("{commit}\n"));
    }),
    // Git prints the lines of such a list that it does not understand.
    row("git-blame-list", Nothing, |planter| {
        let folder = planter.inner_repository();
        let key = planter.secret("private/blame-list");
        let key = key.to_str().unwrap();
        planter.git(&folder, &["config", "blame.ignoreRevsFile", key]);
    }),
    row("git-info-link", Nothing, |planter| {
        let folder = planter.inner_repository();
        let key = planter.secret("private/info/grafts");
        planter.link(key.parent().unwrap(), &format!("{folder}/.git/info"));
    }),
    // The work tree of a `.git` file may be anywhere.
    row("git-work-tree", Nothing, |planter| {
        let folder = planter.inner_repository();
        let key = planter.secret("private/work-tree.txt");
        let empty = planter.git(&folder, &["hash-object", "-w", "/dev/null"]);
        let entry = format!("100644,{empty},work-tree.txt");
        planter.git(&folder, &["update-index", "--add", "--cacheinfo", &entry]);
        let private = key.parent().unwrap().to_str().unwrap();
        planter.git(&folder, &["config", "core.worktree", private]);
        let from = planter.write(&format!("{folder}/gitdir"), "");
        std::fs::remove_file(&from).unwrap();
        std::fs::rename(from.with_file_name(".git"), &from).unwrap();
        planter.write(&format!("{folder}/.git"), "gitdir: gitdir\n");
    }),
    // A repository of the user's own outside the workspace.
    row("git-other-repository", Nothing, |planter| {
        let folder = planter.inner_repository();
        let private = other_repository(planter);
        std::fs::remove_dir_all(planter.write(&format!("{folder}/.git/x"), "").parent().unwrap()).unwrap();
        planter.write(&format!("{folder}/.git"), format!("gitdir: {private}/.git\n"));
    }),
    row("git-common-folder", Nothing, |planter| {
        let folder = planter.inner_repository();
        let private = other_repository(planter);
        planter.write(&format!("{folder}/.git/commondir"), format!("{private}/.git\n"));
    }),
    row(
        "git-partial-clone",
        Lists("gitSetting", "extensions.partialclone"),
        |planter| {
            let folder = planter.inner_repository();
            planter.git(&folder, &["config", "remote.origin.url", &planter.url()]);
            planter.git(&folder, &["config", "remote.origin.promisor", "true"]);
            planter.git(&folder, &["config", "extensions.partialClone", "origin"]);
            planter.git(&folder, &["config", "core.repositoryFormatVersion", "1"]);
            let blob = planter.git(&folder, &["rev-parse", "HEAD:a.txt"]);
            let (start, rest) = blob.split_at(2);
            let object = planter.write(&format!("{folder}/.git/x"), "");
            let object = object.with_file_name(format!("objects/{start}/{rest}"));
            std::fs::remove_file(object).unwrap();
        },
    ),
];

/// Makes a repository outside the workspace whose history is secret, and returns its folder.
fn other_repository(planter: &Planter<'_>) -> String {
    let name = planter.marker().file_name().unwrap().to_str().unwrap().to_owned();
    let path = planter.secret(&format!("own/{name}/plan.txt"));
    let folder = path.parent().unwrap().to_str().unwrap().to_owned();
    planter.make_repository(&folder);
    folder
}
