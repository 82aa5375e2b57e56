//! The frame of a page: its head with the policy, its data, its end.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::text::escape;

/// What every page looks like: colours light and dark, type, charts.
const STYLE: &str = include_str!("page.css");

/// What a page is made of beside its content.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The title.
    pub title: &'a str,
    /// Style sheets, which follow the one that all pages have.
    pub styles: &'a [&'a str],
    /// Scripts, which are one module together and run once the page is there.
    pub scripts: &'a [&'a str],
}

impl Frame<'_> {
    /// Writes the head. The page's policy allows these very styles and scripts and nothing else: no request, no form, no
    /// script that a stored text might smuggle in.
    ///
    /// # Errors
    /// Those of the output.
    pub fn begin<W: Write>(&self, mut out: W) -> io::Result<Page<W>> {
        let style = inline([STYLE].iter().chain(self.styles));
        let script = inline(self.scripts);
        let scripts = if self.scripts.is_empty() { "'none'".to_owned() } else { source(&script) };
        write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {}; script-src {scripts}; \
             img-src data:; base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{style}</style>\n</head>\n<body>\n",
            source(&style),
            escape(self.title),
        )?;
        Ok(Page { out, script })
    }
}

/// Sources as they stand between their tags.
fn inline<'a>(sources: impl IntoIterator<Item = &'a &'a str>) -> String {
    sources.into_iter().fold(String::from("\n"), |all, source| all + source)
}

/// How the policy names an inline source.
fn source(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

/// A page that is being written.
#[derive(Debug)]
pub struct Page<W> {
    out: W,
    script: String,
}

impl<W: Write> Page<W> {
    /// Writes markup as it is.
    ///
    /// # Errors
    /// Those of the output.
    pub fn markup(&mut self, markup: &str) -> io::Result<()> {
        self.out.write_all(markup.as_bytes())
    }

    /// Writes data that scripts find as the JSON text of the element `id`. No text in it can end the element.
    ///
    /// # Errors
    /// Those of the output, and those of a value that can't be written as JSON.
    pub fn data(&mut self, id: &str, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
        write!(self.out, "<script type=\"application/json\" id=\"{}\">", escape(id))?;
        serde_json::to_writer(WithoutTags(&mut self.out), value)?;
        self.out.write_all(b"</script>\n")
    }

    /// Ends the page, and gives the output back.
    ///
    /// # Errors
    /// Those of the output.
    pub fn end(mut self) -> io::Result<W> {
        if self.script != "\n" {
            writeln!(self.out, "<script type=\"module\">{}</script>", self.script)?;
        }
        self.out.write_all(b"</body>\n</html>\n")?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Hands JSON on with each `<` escaped. There is none outside its strings, and without one HTML sees no tag or comment.
struct WithoutTags<W>(W);

impl<W: Write> Write for WithoutTags<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for (place, part) in bytes.split(|byte| *byte == b'<').enumerate() {
            if place > 0 {
                self.0.write_all(b"\\u003c")?;
            }
            self.0.write_all(part)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(value: &str) -> String {
        let frame = Frame { title: "</title><b>", styles: &["b{}"], scripts: &["one();", "two();"] };
        let mut page = frame.begin(Vec::new()).unwrap();
        page.data("data", value).unwrap();
        String::from_utf8(page.end().unwrap()).unwrap()
    }

    #[test]
    fn no_text_ends_the_element_that_it_stands_in() {
        let hostile = "</script><script>alert(1)</script><!-- <script> ]]> \u{2028}\0";
        let page = page(hostile);
        assert!(page.contains("<title>&lt;/title&gt;&lt;b&gt;</title>"));
        let (_, rest) = page.split_once("id=\"data\">").unwrap();
        let (data, rest) = rest.split_once('<').unwrap();
        assert!(rest.starts_with("/script>\n<script type=\"module\">\none();two();</script>"), "{rest}");
        assert_eq!(serde_json::from_str::<String>(data).unwrap(), hostile);
    }

    #[test]
    fn the_policy_names_what_is_inline() {
        let page = page("");
        let between = |begin: &str, end: &str| page.split_once(begin).unwrap().1.split_once(end).unwrap().0.to_owned();
        assert!(page.contains(&format!("style-src {};", source(&between("<style>", "</style>")))));
        assert!(page.contains(&format!("script-src {};", source(&between("<script type=\"module\">", "</script>")))));
    }

    #[test]
    fn a_page_without_scripts_allows_none() {
        let page = Frame { title: "t", styles: &[], scripts: &[] }.begin(Vec::new()).unwrap().end().unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("script-src 'none';") && !page.contains("<script"));
    }
}
