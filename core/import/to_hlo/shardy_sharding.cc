#include "core/import/to_hlo/shardy_sharding.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane::to_hlo {
namespace {

class Cursor {
 public:
  explicit Cursor(absl::string_view text) : all_(text), rest_(text) {}
  bool Take(absl::string_view token) {
    Skip();
    if (!absl::StartsWith(rest_, token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  absl::Status Expect(absl::string_view token) {
    return Take(token) ? absl::OkStatus() : Error(absl::StrCat("expected '", token, "'"));
  }
  absl::StatusOr<std::string> Quoted() {
    RETURN_IF_ERROR(Expect("\""));
    const size_t end = rest_.find('"');
    if (end == absl::string_view::npos) return Error("a name without an end");
    std::string name(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return name;
  }
  absl::StatusOr<int64_t> Number() {
    Skip();
    size_t n = 0;
    while (n < rest_.size() && absl::ascii_isdigit(rest_[n])) ++n;
    int64_t value = 0;
    if (!absl::SimpleAtoi(rest_.substr(0, n), &value)) return Error("expected a number");
    rest_.remove_prefix(n);
    return value;
  }
  absl::string_view ReadUntil(absl::string_view stops) {
    const size_t n = std::min(rest_.find_first_of(stops), rest_.size());
    absl::string_view out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return absl::StripAsciiWhitespace(out);
  }
  absl::string_view rest() const { return rest_; }
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("sharding ", all_, ": ", what, " before '", rest_.substr(0, 20), "'"));
  }

 private:
  void Skip() {
    while (!rest_.empty() && absl::ascii_isspace(rest_[0])) rest_.remove_prefix(1);
  }
  absl::string_view all_, rest_;
};

struct Mesh {
  std::vector<std::string> names;
  Ints sizes, devices;
};

absl::StatusOr<Mesh> ParseMesh(Cursor& c) {
  Mesh mesh;
  RETURN_IF_ERROR(c.Expect("<["));
  int64_t count = 1;
  while (!c.Take("]")) {
    if (!mesh.names.empty()) RETURN_IF_ERROR(c.Expect(","));
    ASSIGN_OR_RETURN(std::string name, c.Quoted());
    RETURN_IF_ERROR(c.Expect("="));
    ASSIGN_OR_RETURN(int64_t size, c.Number());
    if (size < 1 || size > kMaxDevices / count) return c.Error("a mesh of no or too many devices");
    count *= size;
    mesh.names.push_back(std::move(name));
    mesh.sizes.push_back(size);
  }
  if (c.Take(",")) {
    RETURN_IF_ERROR(c.Expect("device_ids=["));
    while (!c.Take("]")) {
      if (!mesh.devices.empty()) RETURN_IF_ERROR(c.Expect(","));
      ASSIGN_OR_RETURN(int64_t id, c.Number());
      mesh.devices.push_back(id);
    }
    if (static_cast<int64_t>(mesh.devices.size()) != count) return c.Error("device_ids do not fit the axes");
  }
  RETURN_IF_ERROR(c.Expect(">"));
  return mesh;
}

// A sub-axis of a mesh: its coordinate is (c / after) % size, where c is the axis's coordinate.
struct SubAxis {
  size_t axis = 0;
  int64_t size = 1, after = 1;
};

absl::StatusOr<SubAxis> ParseAxis(Cursor& c, const Mesh& mesh) {
  ASSIGN_OR_RETURN(std::string name, c.Quoted());
  auto at = std::find(mesh.names.begin(), mesh.names.end(), name);
  if (at == mesh.names.end()) return c.Error(absl::StrCat("the mesh has no axis \"", name, "\""));
  SubAxis sub_axis;
  sub_axis.axis = static_cast<size_t>(at - mesh.names.begin());
  sub_axis.size = mesh.sizes[sub_axis.axis];
  if (c.Take(":")) {
    RETURN_IF_ERROR(c.Expect("("));
    ASSIGN_OR_RETURN(int64_t before, c.Number());
    RETURN_IF_ERROR(c.Expect(")"));
    ASSIGN_OR_RETURN(int64_t size, c.Number());
    if (before < 1 || size < 1 || before > sub_axis.size || size > sub_axis.size ||
        sub_axis.size % (before * size) != 0) {
      return c.Error(absl::StrCat("no such sub-axis of \"", name, "\" of size ", sub_axis.size));
    }
    sub_axis.after = sub_axis.size / (before * size);
    sub_axis.size = size;
  }
  return sub_axis;
}

// The devices of a mesh, tile by tile, in a listed form and where possible as an iota.
absl::StatusOr<Sharding> Tiled(const Mesh& mesh, std::vector<std::vector<SubAxis>> dims,
                               const std::vector<SubAxis>& parts_axes) {
  Sharding s;
  int64_t count = 1, tiles = 1;
  // Partial sums: one more dimension behind the array's.
  if (!parts_axes.empty()) dims.push_back(parts_axes);
  for (int64_t n : mesh.sizes) count *= n;
  std::vector<SubAxis> named;
  for (const auto& sub_axes : dims) {
    int64_t n = 1;
    for (const SubAxis& p : sub_axes) {
      if (p.size > count / tiles) return absl::InvalidArgumentError("sharding: mesh axes are named more than once");
      n *= p.size;
      tiles *= p.size;
      if (p.size > 1) named.push_back(p);
    }
    s.tile_dims.push_back(n);
  }
  if (tiles == 1) return s;
  s.type = Sharding::Type::kOther;
  if (tiles < count) {
    s.tile_dims.push_back(count / tiles);
    s.replicate_on_last_tile_dim = parts_axes.empty();
  }
  if (!parts_axes.empty()) {
    s.last_tile_dims = {Sharding::Type::kUnreduced};
    if (tiles < count) s.last_tile_dims.push_back(Sharding::Type::kReplicated);
  }
  // The tiles are loops over the named sub-axes. The copies of a tile are in the order of the mesh: inside of them are
  // loops over what remains of the axes.
  std::vector<DeviceLoop> loops(named.size()), rest;
  bool full_axes = true;
  int64_t inner = count;  // devices for each step of what comes before
  for (size_t a = 0; a < mesh.sizes.size(); ++a) {
    std::vector<size_t> parts;
    for (size_t k = 0; k < named.size(); ++k) {
      if (named[k].axis == a) parts.push_back(k);
    }
    std::sort(parts.begin(), parts.end(), [&](size_t x, size_t y) { return named[x].after > named[y].after; });
    int64_t left = mesh.sizes[a];  // of the axis, inside of the parts so far
    for (size_t k : parts) {
      const SubAxis& p = named[k];
      const int64_t outer = left / (p.size * p.after);
      if (outer < 1 || left % (p.size * p.after) != 0) {
        return absl::InvalidArgumentError(absl::StrCat("sharding: sub-axes of \"", mesh.names[a], "\" overlap"));
      }
      full_axes = full_axes && p.size == mesh.sizes[a];
      inner /= outer;
      if (outer > 1) rest.push_back({outer, inner});
      inner /= p.size;
      loops[k] = {p.size, inner};
      left = p.after;
    }
    inner /= left;
    if (left > 1) rest.push_back({left, inner});
  }
  loops.insert(loops.end(), rest.begin(), rest.end());
  IotaDevices iota = MakeIotaDevices(s.tile_dims, loops);
  const bool large = count > kMaxListedDevices;
  if (mesh.devices.empty()) {
    if (large || full_axes)
      s.iota = std::move(iota);
    else
      s.devices = iota.Expand();
    return s;
  }
  const Ints places = iota.Expand();
  for (int64_t place : places) s.devices.push_back(mesh.devices[static_cast<size_t>(place)]);
  if (full_axes && s.devices == places) {
    s.iota = std::move(iota);
  } else if (large) {
    s.iota = FindIotaDevices(s.tile_dims, s.devices);
  }
  if (s.iota) s.devices = Ints();
  return s;
}

// Of a value of `rank` dimensions in a region that is manual along `axes`.
absl::StatusOr<Sharding> MakeRegionSharding(const Mesh& mesh, const std::set<std::string>& axes, int64_t rank) {
  std::vector<std::vector<SubAxis>> dims(static_cast<size_t>(rank) + 1);
  int64_t count = 1, manual = 1;
  for (size_t a = 0; a < mesh.names.size(); ++a) {
    count *= mesh.sizes[a];
    if (axes.count(mesh.names[a]) == 0) continue;
    manual *= mesh.sizes[a];
    dims.back().push_back({a, mesh.sizes[a], 1});
  }
  Sharding s;
  if (manual < count) {
    ASSIGN_OR_RETURN(s, Tiled(mesh, dims, {}));
  }
  if (s.type != Sharding::Type::kOther) {  // nothing left to others, or nothing manual
    s = Sharding();
    if (manual == count) s.type = Sharding::Type::kManual;
    return s;
  }
  s.replicate_on_last_tile_dim = false;
  s.last_tile_dims = {Sharding::Type::kManual, Sharding::Type::kReplicated};
  return s;
}

}  // namespace

absl::StatusOr<ShardySharding> ConvertShardySharding(absl::string_view text, const MeshTexts& meshes, int64_t rank,
                                                     const std::set<std::string>* only_axes) {
  Cursor c(text);
  c.ReadUntil("<");
  RETURN_IF_ERROR(c.Expect("<"));
  Mesh mesh;
  if (c.Take("@")) {
    const std::string name(c.ReadUntil(",>"));
    auto at = meshes.find(name);
    if (at == meshes.end()) return c.Error(absl::StrCat("there is no mesh @", name));
    Cursor m(at->second);
    m.ReadUntil("<");
    ASSIGN_OR_RETURN(mesh, ParseMesh(m));
  } else {
    RETURN_IF_ERROR(c.Expect("mesh"));
    ASSIGN_OR_RETURN(mesh, ParseMesh(c));
  }
  RETURN_IF_ERROR(c.Expect(","));
  RETURN_IF_ERROR(c.Expect("["));
  ShardySharding out;
  std::vector<std::vector<SubAxis>> dims;
  bool any_axis = false;
  while (!c.Take("]")) {
    if (!dims.empty()) RETURN_IF_ERROR(c.Expect(","));
    RETURN_IF_ERROR(c.Expect("{"));
    std::vector<SubAxis> sub_axes;
    bool first = true;
    while (!c.Take("}")) {
      if (!first) RETURN_IF_ERROR(c.Expect(","));
      first = false;
      if (c.Take("?")) {
        out.open.push_back(static_cast<int64_t>(dims.size()));
        continue;
      }
      ASSIGN_OR_RETURN(SubAxis sub_axis, ParseAxis(c, mesh));
      any_axis = true;
      if (only_axes == nullptr || only_axes->count(mesh.names[sub_axis.axis]) != 0) sub_axes.push_back(sub_axis);
    }
    if (c.Take("p")) RETURN_IF_ERROR(c.Number().status());
    dims.push_back(std::move(sub_axes));
  }
  std::vector<SubAxis> parts_axes;
  while (c.Take(",")) {
    const bool unreduced = c.Take("unreduced=");
    if (!unreduced) RETURN_IF_ERROR(c.Expect("replicated="));
    if (unreduced && (c.Take("max") || c.Take("min"))) {
      return absl::UnimplementedError(absl::StrCat("sharding ", text, ": partial results that are not sums"));
    }
    RETURN_IF_ERROR(c.Expect("{"));
    bool first = true;
    while (!c.Take("}")) {
      if (!first) RETURN_IF_ERROR(c.Expect(","));
      first = false;
      ASSIGN_OR_RETURN(SubAxis sub_axis, ParseAxis(c, mesh));
      if (unreduced && (only_axes == nullptr || only_axes->count(mesh.names[sub_axis.axis]) != 0))
        parts_axes.push_back(sub_axis);
    }
  }
  if (mesh.names.empty() && mesh.devices.size() == 1) {
    out.sharding.type = Sharding::Type::kMaximal;
    out.sharding.devices = mesh.devices;
    return out;
  }
  if (!dims.empty() && static_cast<int64_t>(dims.size()) != rank) {
    return c.Error(absl::StrCat(dims.size(), " dimensions, the value has ", rank));
  }
  out.is_unconstrained = !dims.empty() && !any_axis && out.open.size() == dims.size() && parts_axes.empty();
  ASSIGN_OR_RETURN(out.sharding, Tiled(mesh, dims, parts_axes));
  if (only_axes != nullptr) {
    ASSIGN_OR_RETURN(out.region, MakeRegionSharding(mesh, *only_axes, rank));
  }
  return out;
}

absl::StatusOr<std::vector<std::string>> SplitShardingPerValue(absl::string_view text) {
  const size_t begin = text.find("<["), end = text.rfind("]>");
  if (begin == absl::string_view::npos || end == absl::string_view::npos || end < begin + 2) {
    return absl::InvalidArgumentError(absl::StrCat("sharding ", text, ": is no list"));
  }
  absl::string_view body = text.substr(begin + 2, end - begin - 2);
  std::vector<std::string> out;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] == '<' && depth++ == 0) start = i;
    if (body[i] == '>' && --depth == 0) out.emplace_back(body.substr(start, i + 1 - start));
    if (depth < 0) return absl::InvalidArgumentError(absl::StrCat("sharding ", text, ": unbalanced"));
  }
  return out;
}

absl::StatusOr<std::set<std::string>> ParseManualAxes(absl::string_view text) {
  Cursor c(text);
  c.ReadUntil("{");
  RETURN_IF_ERROR(c.Expect("{"));
  std::set<std::string> names;
  while (!c.Take("}")) {
    if (!names.empty()) RETURN_IF_ERROR(c.Expect(","));
    ASSIGN_OR_RETURN(std::string name, c.Quoted());
    names.insert(std::move(name));
  }
  return names;
}

}  // namespace backplane::to_hlo
