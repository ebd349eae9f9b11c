//! Whether the kernel reads and writes whole files of a folder by itself. Pure.

use crate::api::Passthrough;

/// What decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Means {
    /// A person has switched it off.
    pub is_off: bool,
    /// There is somebody who may register files with the kernel.
    pub has_registrar: bool,
    /// The kernel can.
    pub kernel_can: bool,
}

/// Whether it does, and why not.
pub(super) fn decide(means: Means) -> Passthrough {
    let why = match means {
        Means { is_off: true, .. } => "it was switched off for this folder",
        Means { kernel_can: false, .. } => "this kernel cannot; Linux 6.9 and later can",
        Means { has_registrar: false, .. } => {
            "only root may register files with the kernel, and Holdall's helper is not installed"
        }
        Means { .. } => return Passthrough { on: true, why: None },
    };
    Passthrough { on: false, why: Some(why.to_owned()) }
}

/// The same, after what has come between.
pub(super) fn now(decided: &Passthrough, trouble: Option<String>) -> Passthrough {
    match trouble {
        Some(why) if decided.on => Passthrough { on: false, why: Some(why) },
        _ => decided.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_with_the_helper_is_said_until_it_is_over() {
        let on = Passthrough { on: true, why: None };
        let off = Passthrough { on: false, why: Some("it was switched off".into()) };
        let trouble = || Some("the helper did not answer".to_owned());
        assert_eq!(now(&on, trouble()), Passthrough { on: false, why: trouble() });
        assert_eq!((now(&on, None), now(&off, trouble())), (on, off.clone()));
    }

    #[test]
    fn it_takes_a_kernel_a_registrar_and_nobody_who_minds() {
        let all = Means { is_off: false, has_registrar: true, kernel_can: true };
        assert_eq!(decide(all), Passthrough { on: true, why: None });
        for (means, why) in [
            (Means { is_off: true, ..all }, "switched off"),
            (Means { has_registrar: false, ..all }, "root"),
            (Means { has_registrar: false, kernel_can: false, ..all }, "kernel"),
        ] {
            let Passthrough { on, why: told } = decide(means);
            assert!(!on && told.unwrap().contains(why), "{means:?}");
        }
    }
}
