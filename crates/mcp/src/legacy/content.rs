//! Content that older revisions do not know.

use alloc::format;

use crate::Revision;
use crate::schema::ContentBlock;

/// Replaces content that `revision` has no type for by text that says what it was.
pub fn downgrade(content: &mut [ContentBlock], revision: Revision) {
    for block in content {
        let replacement = match block {
            ContentBlock::Audio(audio) if !revision.has_audio() => format!("[audio, {}]", audio.mime_type),
            ContentBlock::ResourceLink(link) if !revision.has_structured_output() => {
                format!("[resource {}]", link.uri)
            }
            _ => continue,
        };
        *block = ContentBlock::text(replacement);
    }
}
