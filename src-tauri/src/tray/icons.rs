//! The tray's icons, one for each tone. `icons/make` draws them.

use holdall_gui::Tone;
use tauri::image::Image;
use tauri::include_image;

/// The icon of a tone, for panels with one and with two pixels per point.
pub fn of(tone: Tone) -> Vec<ksni::Icon> {
    let images: [Image<'static>; 2] = match tone {
        Tone::Safe => [include_image!("icons/tray-safe-22.png"), include_image!("icons/tray-safe-44.png")],
        Tone::Busy => [include_image!("icons/tray-busy-22.png"), include_image!("icons/tray-busy-44.png")],
        Tone::Waiting => {
            [include_image!("icons/tray-waiting-22.png"), include_image!("icons/tray-waiting-44.png")]
        }
        Tone::Attention => {
            [include_image!("icons/tray-attention-22.png"), include_image!("icons/tray-attention-44.png")]
        }
        Tone::Quiet => [include_image!("icons/tray-quiet-22.png"), include_image!("icons/tray-quiet-44.png")],
    };
    images.iter().map(argb).collect()
}

/// The tray wants alpha first.
fn argb(image: &Image<'_>) -> ksni::Icon {
    let data =
        image.rgba().chunks_exact(4).flat_map(|pixel| [pixel[3], pixel[0], pixel[1], pixel[2]]).collect();
    let side = |length| i32::try_from(length).expect("an icon is small");
    ksni::Icon { width: side(image.width()), height: side(image.height()), data }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_tones_look_alike() {
        let tones = [Tone::Safe, Tone::Busy, Tone::Waiting, Tone::Attention, Tone::Quiet];
        let all: Vec<_> = tones.into_iter().map(of).collect();
        for (index, icons) in all.iter().enumerate() {
            assert_eq!((icons[0].width, icons[1].height), (22, 44));
            assert_eq!(icons[1].data.len(), 44 * 44 * 4);
            // The corner is transparent.
            assert_eq!(icons[0].data[0], 0);
            assert!(all[..index].iter().all(|other| other[0].data != icons[0].data));
        }
    }
}
