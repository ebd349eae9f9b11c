//! Ordinary programs on a mounted folder.

use crate::bench::{Bench, Setup};

#[test]
fn cp_mv_find_and_rm_do_what_they_do_elsewhere() {
    for bench in [Bench::new(), Bench::served()] {
        let said = bench.sh(
            "mkdir -p a/b/c && echo one > a/b/one && cp -a a copy && mv copy/b copy/moved && ln -s ../one a/b/c/link
             ls -la a/b > /dev/null && find . | sort && readlink a/b/c/link && cat a/b/c/link && rm -r a
             find . -type f && cat copy/moved/one",
        );
        let expected = ".\n./a\n./a/b\n./a/b/c\n./a/b/c/link\n./a/b/one\n./copy\n./copy/moved\n./copy/moved/c\n\
             ./copy/moved/one\n../one\none\n./copy/moved/one\none\n";
        assert_eq!(said, expected);
    }
}

#[test]
fn tar_restores_what_it_packed() {
    let bench = Bench::new();
    bench.sh(
        "mkdir -p src/d && head -c 3000000 /dev/urandom > src/big && echo x > src/d/small && chmod 750 src/d
         touch -d '2001-02-03 04:05:06.789' src/d/small && ln -s small src/d/link
         tar cf archive.tar src && mkdir out && tar xf archive.tar -C out && diff -r src out/src
         test \"$(stat -c '%a %Y' out/src/d/small src/d/small out/src/d | sort -u | wc -l)\" = 2
         test \"$(stat -c %y out/src/d/small | cut -c1-19)\" = '2001-02-03 04:05:06'",
    );
}

#[test]
fn git_commits_and_clones() {
    let bench = Bench::new();
    bench.sh(
        "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
         git init -q work && cd work && for i in $(seq 50); do echo $i > file$i; done
         git add . && git commit -qm one && echo more >> file1 && git commit -qam two && git gc -q
         cd .. && git clone -q work clone && cd clone && git fsck --strict && test \"$(git log --oneline | wc -l)\" = 2
         git status --porcelain | wc -l | grep -qx 0",
    );
}

#[test]
fn sqlite_keeps_its_database_whole() {
    for bench in [Bench::new(), Bench::served()] {
        let said = bench.sh(
            "sqlite3 db 'create table t (a, b)' 'begin' 'with recursive n(x) as (select 1 union all select x + 1 from n where x < 2000)
                 insert into t select x, hex(randomblob(100)) from n' 'commit'
             sqlite3 db 'pragma journal_mode = delete' 'update t set b = a' 'delete from t where a % 2' vacuum \\
                 'pragma integrity_check' 'select count(*), sum(b) from t'",
        );
        assert_eq!(said.lines().collect::<Vec<_>>()[1..], ["ok", "1000|1001000"]);
    }
}

#[test]
fn a_read_only_folder_is_read_and_not_changed() {
    let setup = Setup { passes_through: true, read_only: true };
    let bench = Bench::with(setup, |remote| std::fs::write(remote.join("file"), "text").unwrap());
    let said = bench.sh("cat file; for c in 'echo x >> file' 'rm file' 'mkdir d' 'touch -m file'; do (bash -c \"$c\" 2>&1 || true) | grep -o 'Read-only file system'; done");
    assert_eq!(said, format!("text{}", "Read-only file system\n".repeat(4)));
}
