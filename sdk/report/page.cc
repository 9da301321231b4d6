#include "sdk/report/page.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace backplane::report {

// page/, put together when this library is built (embed.cmake).
extern const char kPage[];
extern const unsigned long kPageBytes;

namespace {

constexpr absl::string_view kPlace = "@DATA@";

// Nothing in the data may end the element it stands in. In JSON a "<" can only stand within a string.
void AppendData(absl::string_view data, std::string* out) {
  for (size_t at = 0; at < data.size();) {
    const size_t next = std::min(data.find('<', at), data.size());
    out->append(data.data() + at, next - at);
    if (next < data.size()) out->append("\\u003c");
    at = next + 1;
  }
}

}  // namespace

std::string Page(absl::Span<const PageDocument> documents) {
  const absl::string_view page(kPage, kPageBytes);
  const size_t place = page.find(kPlace);
  std::string out(page.data(), place);
  size_t bytes = page.size();
  for (const PageDocument& d : documents) bytes += d.title.size() + d.json.size() + d.json.size() / 64 + 200;
  out.reserve(bytes);
  // An element for each, so that one broken document does not take the others with it.
  for (const PageDocument& d : documents) {
    out.append("<script type=\"application/json\" class=\"document\" data-title=\"");
    out.append(absl::StrReplaceAll(d.title, {{"&", "&amp;"}, {"\"", "&quot;"}, {"<", "&lt;"}}));
    out.append("\">");
    AppendData(d.json, &out);
    out.append("</script>\n");
  }
  absl::StrAppend(&out, page.substr(place + kPlace.size()));
  return out;
}

}  // namespace backplane::report
