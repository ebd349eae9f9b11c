//! Server-sent events, from the lines of a stream.

/// Joins lines to events.
#[derive(Debug, Default)]
pub struct Events {
    data: Option<String>,
}

impl Events {
    /// The data of the event that this line ends. Comments only keep the connection alive.
    pub fn line(&mut self, line: &[u8]) -> Option<String> {
        if line.is_empty() {
            return self.data.take();
        }
        let text = String::from_utf8_lossy(line);
        if let Some(data) = text.strip_prefix("data:") {
            let data = data.strip_prefix(' ').unwrap_or(data);
            match &mut self.data {
                Some(before) => {
                    before.push('\n');
                    before.push_str(data);
                }
                None => self.data = Some(data.to_owned()),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        let mut events = Events::default();
        text.lines().filter_map(|line| events.line(line.as_bytes())).collect()
    }

    #[test]
    fn an_empty_line_ends_an_event() {
        assert_eq!(all("data: {\"a\":1}\n\ndata:2\n\n"), ["{\"a\":1}", "2"]);
        assert_eq!(all("data: a\ndata:  b\n\n"), ["a\n b"]);
    }

    #[test]
    fn comments_and_half_events_are_no_events() {
        assert_eq!(all(": alive\n\nevent: x\nid: 7\n\n"), [""; 0]);
        assert_eq!(all("data: begun"), [""; 0]);
    }
}
