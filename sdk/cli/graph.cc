#include "sdk/cli/graph.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace backplane::cli {
namespace {

constexpr double kHeight = 34, kGapX = 16, kGapY = 40, kMargin = 20, kChar = 6.7;

std::string EscapeXml(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

struct Node {
  const Instruction* instruction = nullptr;
  int64_t level = 0;
  double x = 0, y = 0, width = 0;  // x, y: the middle of the upper edge
  double wish = 0;                 // the mean position of its operands
};

const char* Color(const Instruction& i) {
  if (i.Is(Opcode::kParameter)) return "#cfe8ff";
  if (i.Is(Opcode::kConstant)) return "#eeeeee";
  if (!i.called().empty()) return "#ffe3c2";
  if (i.IsRoot()) return "#d5f0d0";
  return "#ffffff";
}

// Draws the computation below `top`, increases `width` if necessary, and returns the lower edge.
double Draw(const Computation& computation, double top, double* width, std::string* out) {
  std::vector<Node> nodes;
  std::map<const Instruction*, size_t> place;
  std::map<int64_t, std::vector<size_t>> levels;
  for (const auto& i : computation.instructions()) {
    Node node;
    node.instruction = i.get();
    // Operands precede their users in the list.
    for (const Instruction* operand : i->operands()) node.level = std::max(node.level, nodes[place[operand]].level + 1);
    const size_t text = std::max(i->name().size(), i->shape().ToString().size());
    node.width = kChar * static_cast<double>(std::min<size_t>(text, 40)) + 14;
    place[i.get()] = nodes.size();
    levels[node.level].push_back(nodes.size());
    nodes.push_back(node);
  }
  absl::StrAppendFormat(out, "<text x=\"%g\" y=\"%g\" class=\"t\">%s</text>\n", kMargin, top + 16,
                        EscapeXml(absl::StrCat(computation.IsEntry() ? "entry " : "", computation.name())));
  double y = top + 34;
  for (auto& [level, members] : levels) {
    // A node is near the middle of its operands, if there is space.
    for (size_t m : members) {
      Node& node = nodes[m];
      for (const Instruction* operand : node.instruction->operands()) node.wish += nodes[place[operand]].x;
      if (node.instruction->operand_count() > 0) node.wish /= static_cast<double>(node.instruction->operand_count());
    }
    std::stable_sort(members.begin(), members.end(), [&](size_t a, size_t b) { return nodes[a].wish < nodes[b].wish; });
    double x = kMargin;
    for (size_t m : members) {
      Node& node = nodes[m];
      node.x = std::max(x + node.width / 2, node.wish);
      node.y = y;
      x = node.x + node.width / 2 + kGapX;
    }
    *width = std::max(*width, x);
    y += kHeight + kGapY;
  }
  for (const Node& node : nodes) {
    for (const Instruction* operand : node.instruction->operands()) {
      const Node& from = nodes[place[operand]];
      const double y0 = from.y + kHeight, bend = (node.y - y0) / 2;
      absl::StrAppendFormat(out, "<path class=\"e\" d=\"M%g %gC%g %g %g %g %g %g\"/>\n", from.x, y0, from.x, y0 + bend,
                            node.x, node.y - bend, node.x, node.y);
    }
  }
  for (const Node& node : nodes) {
    auto cut = [](std::string text) { return text.size() > 40 ? absl::StrCat(text.substr(0, 37), "...") : text; };
    std::string whole = node.instruction->ToString();
    if (whole.size() > 2000) whole = absl::StrCat(whole.substr(0, 2000), "...");
    absl::StrAppendFormat(
        out,
        "<g><title>%s</title><rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" rx=\"5\" fill=\"%s\"/>"
        "<text x=\"%g\" y=\"%g\" class=\"n\">%s</text><text x=\"%g\" y=\"%g\" class=\"s\">%s</text></g>\n",
        EscapeXml(whole), node.x - node.width / 2, node.y, node.width, kHeight, Color(*node.instruction), node.x,
        node.y + 14, EscapeXml(cut(node.instruction->name())), node.x, node.y + 27,
        EscapeXml(cut(node.instruction->shape().ToString())));
  }
  return y;
}

}  // namespace

absl::StatusOr<std::string> DrawGraphAsSvg(const Module& module, int64_t max_instructions) {
  int64_t count = 0;
  for (const auto& computation : module.computations()) count += computation->instruction_count();
  if (count > max_instructions) {
    return absl::InvalidArgumentError(
        absl::StrCat("graph: ", count, " instructions, at most ", max_instructions, " are drawn"));
  }
  std::string body;
  double width = 200, y = kMargin;
  y = Draw(*module.entry(), y, &width, &body);
  for (const auto& computation : module.computations()) {
    if (computation.get() != module.entry()) y = Draw(*computation, y + kMargin, &width, &body);
  }
  return absl::StrCat(
      absl::StrFormat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" viewBox=\"0 0 %g %g\">\n",
                      width + kMargin, y + kMargin, width + kMargin, y + kMargin),
      "<style>text{font-family:monospace}.n{font-size:11px;text-anchor:middle}.s{font-size:10px;text-anchor:middle;"
      "fill:#666}",
      ".t{font-size:14px;font-weight:bold}rect{stroke:#888}.e{fill:none;stroke:#999}</style>\n<rect width=\"100%\" "
      "height=\"100%\" ",
      "fill=\"#fff\" style=\"stroke:none\"/>\n", body, "</svg>\n");
}

}  // namespace backplane::cli
