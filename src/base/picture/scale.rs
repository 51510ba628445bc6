//! Scaling by area: each pixel of the result is the average of what it covers, so that small text stays readable.
//!
//! Takes a picture row by row, so that it need not be in memory. Pure.

/// A picture in memory: rows of pixels, with 8 bits for each channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pixels {
    pub(super) width: u32,
    pub(super) height: u32,
    /// 1: gray; 2: gray and alpha; 3: RGB; 4: RGB and alpha.
    pub(super) channels: usize,
    pub(super) data: Vec<u8>,
}

impl Pixels {
    pub(super) fn has_alpha(&self) -> bool {
        self.channels.is_multiple_of(2)
    }

    /// Returns the picture without alpha, on a white ground.
    pub(super) fn flatten_on_white(&self) -> Self {
        if !self.has_alpha() {
            return self.clone();
        }
        let colors = self.channels - 1;
        let blend = |pixel: &[u8]| {
            let alpha = u32::from(pixel[colors]);
            let mix = move |color: &u8| ((u32::from(*color) * alpha + 255 * (255 - alpha)) / 255) as u8;
            pixel[..colors].iter().map(mix).collect::<Vec<u8>>()
        };
        Self {
            channels: colors,
            data: self.data.chunks_exact(self.channels).flat_map(blend).collect(),
            ..*self
        }
    }

    /// Returns the picture turned and mirrored as EXIF's orientation says; other numbers than 2 to 8 mean upright.
    pub(super) fn set_upright(self, orientation: u16) -> Self {
        if !(2..=8).contains(&orientation) {
            return self;
        }
        let (width, height) = (self.width as usize, self.height as usize);
        let swaps = orientation >= 5;
        let (new_width, new_height) = if swaps { (height, width) } else { (width, height) };
        let mut data = Vec::with_capacity(self.data.len());
        for y in 0..new_height {
            for x in 0..new_width {
                let (from_x, from_y) = match orientation {
                    2 => (width - 1 - x, y),
                    3 => (width - 1 - x, height - 1 - y),
                    4 => (x, height - 1 - y),
                    5 => (y, x),
                    6 => (y, height - 1 - x),
                    7 => (width - 1 - y, height - 1 - x),
                    _ => (width - 1 - y, x),
                };
                let at = (from_y * width + from_x) * self.channels;
                data.extend_from_slice(&self.data[at..at + self.channels]);
            }
        }
        Self {
            width: new_width as u32,
            height: new_height as u32,
            channels: self.channels,
            data,
        }
    }
}

/// Where a pixel or a row of the source goes: to `cell`, and with the rest of its weight to the next one.
#[derive(Clone, Copy)]
struct Share {
    cell: usize,
    own: f32,
    next: f32,
}

/// Returns the shares of `from` positions in `to` cells, which are not more.
fn share_out(from: u32, to: u32) -> Vec<Share> {
    let ratio = f64::from(to) / f64::from(from);
    let share = |at: u32| {
        let (start, end) = (f64::from(at) * ratio, f64::from(at + 1) * ratio);
        let cell = (start as usize).min(to as usize - 1);
        let boundary = (cell + 1) as f64;
        // The last cell ends with the picture, whatever rounding says.
        let is_last = cell + 1 == to as usize;
        let next = if is_last { 0.0 } else { (end - boundary).max(0.0) };
        Share {
            cell,
            own: (end - start - next) as f32,
            next: next as f32,
        }
    };
    (0..from).map(share).collect()
}

/// Averages rows that are pushed into a smaller picture.
pub(super) struct Scaler {
    columns: Vec<Share>,
    rows: Vec<Share>,
    /// The number of rows pushed.
    pushed: usize,
    /// The sums of the row of the result that is being filled, and of the next one.
    current: Vec<f32>,
    next: Vec<f32>,
    result: Pixels,
}

impl Scaler {
    /// Creates a scaler for a picture of this size, whose longest edge becomes `edge` at most.
    pub(super) fn new(size: (u32, u32), channels: usize, edge: u32) -> Self {
        let longest = size.0.max(size.1);
        let fit = |length: u32| {
            if longest <= edge {
                length
            } else {
                (u64::from(length) * u64::from(edge) / u64::from(longest)).max(1) as u32
            }
        };
        let (width, height) = (fit(size.0), fit(size.1));
        Self {
            columns: share_out(size.0, width),
            rows: share_out(size.1, height),
            pushed: 0,
            current: vec![0.0; width as usize * channels],
            next: vec![0.0; width as usize * channels],
            result: Pixels {
                width,
                height,
                channels,
                data: Vec::with_capacity(width as usize * height as usize * channels),
            },
        }
    }

    /// Adds the next row of the source; rows beyond its height are ignored.
    pub(super) fn push_row(&mut self, row: &[u8]) {
        let Some(share) = self.rows.get(self.pushed).copied() else {
            return;
        };
        self.pushed += 1;
        let channels = self.result.channels;
        let has_alpha = self.result.has_alpha();
        for (pixel, column) in row.chunks_exact(channels).zip(&self.columns) {
            // Colors count by their opacity.
            let opacity = if has_alpha {
                f32::from(pixel[channels - 1]) / 255.0
            } else {
                1.0
            };
            for (channel, value) in pixel.iter().enumerate() {
                let is_alpha = has_alpha && channel == channels - 1;
                let value = f32::from(*value) * if is_alpha { 1.0 } else { opacity };
                let at = column.cell * channels + channel;
                self.current[at] += value * column.own * share.own;
                self.next[at] += value * column.own * share.next;
                if column.next > 0.0 {
                    self.current[at + channels] += value * column.next * share.own;
                    self.next[at + channels] += value * column.next * share.next;
                }
            }
        }
        let is_full = self
            .rows
            .get(self.pushed)
            .is_none_or(|next| next.cell > share.cell);
        if is_full {
            self.flush_row(has_alpha);
        }
    }

    fn flush_row(&mut self, has_alpha: bool) {
        let channels = self.result.channels;
        for pixel in self.current.chunks_exact(channels) {
            let opacity = if has_alpha {
                pixel[channels - 1] / 255.0
            } else {
                1.0
            };
            for (channel, sum) in pixel.iter().enumerate() {
                let is_alpha = has_alpha && channel == channels - 1;
                let value = if is_alpha || opacity <= 0.0 {
                    *sum
                } else {
                    sum / opacity
                };
                // Saturates.
                self.result.data.push(value.round() as u8);
            }
        }
        std::mem::swap(&mut self.current, &mut self.next);
        self.next.fill(0.0);
    }

    /// Returns the result; rows that were never pushed are black or transparent.
    pub(super) fn finish(mut self) -> Pixels {
        let length = self.result.width as usize * self.result.height as usize * self.result.channels;
        self.result.data.resize(length, 0);
        self.result
    }
}
