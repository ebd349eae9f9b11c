//! Addresses, as people write them and as they are remembered.

use super::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn malformed(text: &str) -> String {
    match StoreUrl::parse(text) {
        Err(UrlError::Malformed { reason, .. }) => reason,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn addresses_are_read_and_written() {
    for text in [
        "file:///media/disk/photos",
        "s3://bucket",
        "s3://bucket/a/b%20c?endpoint=https%3A%2F%2Fs3.example.org%3A9000&region=eu-central-1",
        "s3://bucket/a?endpoint=http%3A%2F%2F127.0.0.1%3A7070&path_style=false&ca=%2Fetc%2Fca.pem",
        "https://cloud.example.org/remote.php/dav/files/me/Holdall/",
        "http://127.0.0.1:8080/?ca=%2Fetc%2Fca.pem",
    ] {
        let url = StoreUrl::parse(text).unwrap();
        assert_eq!(url.to_string(), text);
        assert_eq!(StoreUrl::parse(&url.to_string()).unwrap(), url);
    }
}

#[test]
fn people_read_a_place_by_its_parts() {
    for (text, readable) in [
        ("file:///media/disk/photos", "/media/disk/photos"),
        ("s3://bucket", "s3://bucket"),
        (
            "s3://bucket/a/b%20c?endpoint=https%3A%2F%2Fs3.example.org%3A9000&region=eu-central-1",
            "s3://bucket/a/b c at s3.example.org:9000",
        ),
        (
            "https://cloud.example.org/dav/me/Holdall/?ca=%2Fetc%2Fca.pem",
            "https://cloud.example.org/dav/me/Holdall",
        ),
    ] {
        assert_eq!(StoreUrl::parse(text).unwrap().readable(), readable);
    }
}

/// Names with all characters that addresses treat specially.
fn any_name(rng: &mut StdRng) -> String {
    const PARTS: [&str; 24] = [
        "a",
        "Z",
        "9",
        "%",
        "%20",
        "%2520",
        "%2F",
        "%2e",
        " ",
        "/",
        "//",
        ".",
        "..",
        "?",
        "#",
        "&",
        "=",
        "+",
        "\\",
        "ü",
        "日本",
        "\t",
        "\n",
        "\"<>`{}|^[]:@!$'()*,;~",
    ];
    (0..rng.random_range(1..8)).map(|_| PARTS[rng.random_range(0..PARTS.len())]).collect()
}

#[test]
fn remembered_addresses_are_read_back_with_any_name() {
    for seed in 0..20_000 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut some = |name: String| rng.random_bool(0.5).then_some(name);
        let endpoint = some("https://h:9000/a%20b".to_owned());
        let region = some("eu central&=?#%20".to_owned());
        let ca = some("/ü/a%20b ?#&.pem".to_owned()).map(PathBuf::from);
        let prefix = any_name(&mut rng);
        let url = StoreUrl::S3(S3Url {
            bucket: "b-1.x".into(),
            path_style: rng.random_bool(0.5),
            // An address cannot express these.
            prefix: if matches!(&*prefix, "." | "..") { String::new() } else { prefix },
            endpoint: endpoint.map(|endpoint| super::endpoint(&endpoint).unwrap()),
            region,
            ca: ca.clone(),
        });
        let text = url.to_string();
        assert_eq!(StoreUrl::parse(&text).as_ref(), Ok(&url), "seed {seed}: {text}");
        assert_eq!(StoreUrl::parse(&text).unwrap().to_string(), text, "seed {seed}");

        let file = StoreUrl::File(format!("/{}", any_name(&mut rng)).into());
        let base = format!("https://h/{}", any_name(&mut rng).replace(['?', '#', '%'], "%25"));
        let StoreUrl::Dav(dav) = StoreUrl::parse(&base).unwrap() else { panic!("{base}") };
        let dav = StoreUrl::Dav(DavUrl { ca, ..dav });
        for url in [file, dav].iter().filter(|url| **url != StoreUrl::File("/".into())) {
            let text = url.to_string();
            assert_eq!(StoreUrl::parse(&text).as_ref(), Ok(url), "seed {seed}: {text}");
        }
    }
}

#[test]
fn remembered_addresses_keep_their_meaning() {
    let prefix = |text: &str| match StoreUrl::parse(text).unwrap() {
        StoreUrl::S3(url) => url.prefix,
        other => panic!("{other}"),
    };
    assert_eq!(prefix("s3://b/a%20b"), "a b");
    assert_eq!(prefix("s3://b/100%"), "100%");
    assert_eq!(prefix("s3://b/a%2520b"), "a%20b");
    assert_eq!(StoreUrl::parse("s3://b/a%2520b").unwrap().to_string(), "s3://b/a%2520b");
}

#[test]
fn short_forms_mean_the_same() {
    let long = StoreUrl::parse("https://cloud.example.org/files/me/").unwrap();
    assert_eq!(StoreUrl::parse("davs://cloud.example.org/files/me").unwrap(), long);
    assert_eq!(StoreUrl::parse("https://cloud.example.org//files//me//").unwrap(), long);
    let StoreUrl::S3(s3) = StoreUrl::parse("s3://b/p/?endpoint=https://h:1").unwrap() else { panic!() };
    assert_eq!((s3.prefix.as_str(), s3.path_style), ("p", true));
}

#[test]
fn directories_are_read_as_people_write_them() {
    let home = Path::new("/home/ann");
    for (text, path) in [
        ("file:///x/New%20Folder", "/x/New Folder"),
        ("file://localhost/p", "/p"),
        ("file:/p", "/p"),
        ("FILE:///p/", "/p"),
        ("file:///x/100%", "/x/100%"),
        ("file:///x/a%2520b", "/x/a%20b"),
        ("file:///x/%C3%BC", "/x/ü"),
        ("/p", "/p"),
        ("/x/New Folder/", "/x/New Folder"),
        // Not an address, so taken as it stands.
        ("/x/New%20Folder", "/x/New%20Folder"),
        ("//x//./y", "/x/y"),
        ("~/x", "/home/ann/x"),
        ("~", "/home/ann"),
        ("  /p\n", "/p"),
    ] {
        let read = StoreUrl::read(text, Some(home));
        assert_eq!(read, Ok(StoreUrl::File(path.into())), "{text}");
        // It is remembered as an address, and means the same when read back.
        let remembered = read.unwrap().to_string();
        assert_eq!(StoreUrl::parse(&remembered), Ok(StoreUrl::File(path.into())), "{remembered}");
    }
    for text in ["s3://b/p", "https://h/x/"] {
        assert_eq!(StoreUrl::read(text, Some(home)), StoreUrl::parse(text));
    }
    for text in [
        "./x",
        "../x",
        ".",
        "~bob/x",
        "file://here",
        "file://server/share",
        "file:x",
        "file:",
        "file:///",
        "/",
        "/a/../b",
    ] {
        let read = StoreUrl::read(text, Some(home));
        assert!(matches!(read, Err(UrlError::Relative { .. })), "{text}: {read:?}");
    }
    assert!(StoreUrl::read("~/x", None).is_err());
    assert!(StoreUrl::read("file:///a%00b", Some(home)).is_err());
}

#[test]
fn a_mistake_has_a_subject() {
    for text in ["", "x", "photos", "./x", "~bob/x", "ftp://h", "file:x", "C:\\x", ":", "//"] {
        let Err(error) = StoreUrl::read(text, None) else { continue };
        let told = error.to_string();
        assert!(!told.starts_with(' ') && !told.starts_with("is "), "{text}: {told}");
    }
}

#[test]
fn remembered_directories_are_taken_letter_by_letter() {
    let path = |text: &str| StoreUrl::parse(text).unwrap();
    assert_eq!(path("file:///x/New%20Folder"), StoreUrl::File("/x/New%20Folder".into()));
}

#[test]
fn errors_name_the_mistake() {
    assert!(malformed("s3:///prefix").contains("no bucket"));
    assert!(malformed("s3://b?endpoit=https://h").contains("endpoit is no option"));
    assert!(malformed("s3://b?endpoint=h").contains("endpoint is no address"));
    assert!(malformed("s3://b:9000/x").contains("?endpoint="));
    assert!(malformed("https://h/?ca=ca.pem").contains("absolute"));
    assert!(matches!(StoreUrl::parse("ftp://h"), Err(UrlError::Scheme { .. })));
    assert!(matches!(StoreUrl::parse("photos"), Err(UrlError::Scheme { .. })));
    assert!(matches!(StoreUrl::parse("file://here"), Err(UrlError::Relative { .. })));
}

#[test]
fn a_password_in_an_address_is_not_repeated() {
    assert_eq!(StoreUrl::parse("https://me:hunter2@h/"), Err(UrlError::Secret));
    for (text, shown) in [
        ("ftp://me:hunter2@h/", "ftp://h "),
        ("https://me:hunter2@[/", "https://[ "),
        ("https//me:hunter2@host/", "https//host "),
        ("https:///me:hunter2", "https:///me "),
        ("davs:/me:hunter2@h/", "davs:/h "),
        ("me:hunter2@host/files", "host "),
        ("me:hunt@er2/@host:1/files", "host "),
        ("https://me%3Ahunter2%40host/", "https://host "),
        ("https://host:hunter2/", "https://host "),
        ("file://me:hunter2@host/", "file://host "),
        ("s3://b?endpoint=https%3A%2F%2Fme%3Ahunter2%40h", "s3://"),
        ("s3://b?endpoint=https://me:hunter2@h", "s3://"),
        ("s3://b/?secret_key=hunter2", "secret_key is no option"),
        ("s3//b?secret_key=hunter2", "s3//b "),
    ] {
        let Err(error) = StoreUrl::parse(text) else { panic!("{text}") };
        let told = error.to_string();
        assert!(!told.contains("hunter2") && !told.contains("er2/"), "{told}");
        // `Secret` is for passwords in their usual place, and repeats nothing of the address.
        assert!(error == UrlError::Secret || told.contains(shown), "{told}");
    }
}

#[test]
fn a_place_below_another_is_read_as_it_is_written() {
    for (place, below) in [
        ("file:///media/disk", "file:///media/disk/holdall"),
        ("s3://bucket?endpoint=http://h:1", "s3://bucket/holdall?endpoint=http://h:1"),
        ("s3://bucket/a%20b", "s3://bucket/a%20b/holdall"),
        ("https://host/dav/me?ca=/c.pem", "https://host/dav/me/holdall?ca=/c.pem"),
    ] {
        let made = StoreUrl::parse(place).unwrap().below("holdall");
        assert_eq!(made, StoreUrl::parse(below).unwrap());
        assert_eq!(StoreUrl::parse(&made.to_string()).unwrap(), made);
        assert_eq!(StoreUrl::read(&made.given(), None).unwrap(), made);
    }
    let strange = StoreUrl::File("/media/50%25 off".into());
    assert_eq!(StoreUrl::read(&strange.given(), None).unwrap(), strange);
}
