#include "sdk/report/page.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace backplane::report {

// The files of page/, combined by the build (embed.cmake).
extern const char kPage[];
extern const unsigned long kPageBytes;

namespace {

constexpr absl::string_view kPlaceholder = "@DATA@";

// The data must not end the element that contains it. In JSON "<" occurs only in strings.
void AppendData(absl::string_view data, std::string* out) {
  for (size_t at = 0; at < data.size();) {
    const size_t next = std::min(data.find('<', at), data.size());
    out->append(data.data() + at, next - at);
    if (next < data.size()) out->append("\\u003c");
    at = next + 1;
  }
}

}  // namespace

std::string FormatPage(absl::Span<const PageDocument> documents) {
  const absl::string_view page(kPage, kPageBytes);
  const size_t position = page.find(kPlaceholder);
  std::string out(page.data(), position);
  size_t bytes = page.size();
  for (const PageDocument& d : documents) bytes += d.title.size() + d.json.size() + d.json.size() / 64 + 200;
  out.reserve(bytes);
  // One element for each document, so that an invalid one does not affect the others.
  for (const PageDocument& d : documents) {
    out.append("<script type=\"application/json\" class=\"document\" data-title=\"");
    out.append(absl::StrReplaceAll(d.title, {{"&", "&amp;"}, {"\"", "&quot;"}, {"<", "&lt;"}}));
    out.append("\">");
    AppendData(d.json, &out);
    out.append("</script>\n");
  }
  absl::StrAppend(&out, page.substr(position + kPlaceholder.size()));
  return out;
}

}  // namespace backplane::report
