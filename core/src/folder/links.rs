//! Symbolic links of a remote. Pure.

/// Whether the link at `path`, below the folder's top directory, leads out of the folder.
pub(super) fn leads_out(path: &str, target: &str) -> bool {
    if target.starts_with('/') {
        return true;
    }
    let mut depth = path.split('/').count() - 1;
    for name in target.split('/') {
        match name {
            "" | "." => {}
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::leads_out;

    #[test]
    fn links_lead_out_by_root_or_by_more_steps_up_than_there_are() {
        for (path, target) in
            [("l", "/etc/passwd"), ("l", ".."), ("a/l", "../../x"), ("a/l", "b/../../../x"), ("l", "a/../..")]
        {
            assert!(leads_out(path, target), "{path} -> {target}");
        }
        for (path, target) in
            [("l", "x"), ("a/l", "../x"), ("a/b/l", "../../x"), ("l", "a/../x"), ("l", "./x//y")]
        {
            assert!(!leads_out(path, target), "{path} -> {target}");
        }
    }
}
