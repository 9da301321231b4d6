#include "core/text/mesh_groups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

// 'name'
absl::StatusOr<std::string> AxisName(HloLexer& lexer) {
  RETURN_IF_ERROR(lexer.Expect("'", "of an axis name"));
  const std::string name(lexer.Run("_.-"));
  RETURN_IF_ERROR(lexer.Expect("'", "after an axis name"));
  return name;
}

absl::StatusOr<Ints> Numbers(HloLexer& lexer, absl::string_view close) {
  Ints values;
  do {
    ASSIGN_OR_RETURN(int64_t v, lexer.Int());
    values.push_back(v);
  } while (lexer.Take(","));
  RETURN_IF_ERROR(lexer.Expect(close, "after a list of integers"));
  return values;
}

// ([4,2]T(1,0)) or (7,6,5,4): the part after the opening parenthesis.
absl::StatusOr<Ints> DeviceIds(HloLexer& lexer, std::optional<IotaDevices>* out) {
  const size_t at = lexer.position();
  if (!lexer.Take("[")) return Numbers(lexer, ")");
  IotaDevices iota;
  ASSIGN_OR_RETURN(iota.reshape_dims, Numbers(lexer, "]"));
  if (lexer.Take("T")) {
    RETURN_IF_ERROR(lexer.Expect("(", "after T"));
    ASSIGN_OR_RETURN(iota.transpose_perm, Numbers(lexer, ")"));
  }
  RETURN_IF_ERROR(lexer.Expect(")", "of device_ids"));
  iota.dims = iota.reshape_dims;
  if (!iota.Valid()) return lexer.ErrorAt(at, "device_ids that name no list of devices");
  *out = iota;
  if (!FitsMesh(iota)) return lexer.ErrorAt(at, "transposed device_ids of too many devices");
  return iota.Expand();
}

}  // namespace

bool FitsMesh(const IotaDevices& iota) {
  int64_t count = 1;
  for (int64_t d : iota.dims) count *= d;
  return count <= kMaxTransposedDevices || std::is_sorted(iota.transpose_perm.begin(), iota.transpose_perm.end());
}

absl::StatusOr<ReplicaGroups> ComputeReplicaGroupsOfMesh(const Ints& mesh, const Ints& devices,
                                                         const std::vector<MeshAxis>& axes) {
  int64_t count = 1;
  for (int64_t size : mesh) {
    if (size <= 0 || size > kMaxDevices / count) return absl::InvalidArgumentError("replica groups: bad mesh sizes");
    count *= size;
  }
  if (!devices.empty() && static_cast<int64_t>(devices.size()) != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("replica groups: a mesh of ", count, " devices, ", devices.size(), " device ids"));
  }
  // Splits each axis at the boundaries of the named sub-axes, so that a group covers complete pieces.
  struct Piece {
    DeviceLoop loop;
    int64_t order;  // position among the named axes, -1 for none
  };
  std::vector<Piece> pieces;
  int64_t stride = count;
  for (size_t d = 0; d < mesh.size(); ++d) {
    std::vector<std::pair<int64_t, int64_t>> parts;  // pre_size, index into `axes`
    for (size_t k = 0; k < axes.size(); ++k) {
      const MeshAxis& a = axes[k];
      if (a.axis < 0 || a.axis >= static_cast<int64_t>(mesh.size()))
        return absl::InvalidArgumentError("replica groups: no such mesh axis");
      if (a.axis == static_cast<int64_t>(d)) parts.emplace_back(a.size == 0 ? 1 : a.pre_size, static_cast<int64_t>(k));
    }
    std::sort(parts.begin(), parts.end());
    int64_t taken = 1;
    auto add = [&](int64_t size, int64_t order) {
      stride /= size;
      if (size > 1) pieces.push_back({{size, stride}, order});
      taken *= size;
    };
    for (const auto& [pre, k] : parts) {
      const int64_t size = axes[static_cast<size_t>(k)].size == 0 ? mesh[d] : axes[static_cast<size_t>(k)].size;
      if (pre < taken || pre % taken != 0 || size <= 0 || pre > mesh[d] || size > mesh[d] ||
          mesh[d] % (pre * size) != 0) {
        return absl::InvalidArgumentError("replica groups: parts of a mesh axis that do not fit it");
      }
      add(pre / taken, -1);
      add(size, k);
    }
    add(mesh[d] / taken, -1);
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.order < b.order; });
  int64_t group_size = 1;
  for (const Piece& p : pieces) group_size *= p.order >= 0 ? p.loop.size : 1;
  ReplicaGroups groups;
  bool in_order = count > kMaxListedDevices;
  for (size_t n = 0; n < devices.size() && in_order; ++n) in_order = devices[n] == static_cast<int64_t>(n);
  if (in_order) {
    std::vector<DeviceLoop> loops;
    for (const Piece& p : pieces) loops.push_back(p.loop);
    groups.iota = MakeIotaDevices({count / group_size, group_size}, loops);
    return groups;
  }
  Ints listed;
  listed.reserve(static_cast<size_t>(count));
  for (int64_t n = 0; n < count; ++n) {
    int64_t place = 0, rest = n;
    for (size_t i = pieces.size(); i-- > 0;) {
      place += rest % pieces[i].loop.size * pieces[i].loop.stride;
      rest /= pieces[i].loop.size;
    }
    listed.push_back(devices.empty() ? place : devices[static_cast<size_t>(place)]);
  }
  for (auto at = listed.begin(); at != listed.end(); at += group_size) groups.groups.emplace_back(at, at + group_size);
  groups.Compress();
  return groups;
}

absl::StatusOr<ReplicaGroups> MeshGroups::ComputeGroups() const {
  ASSIGN_OR_RETURN(ReplicaGroups groups, ComputeReplicaGroupsOfMesh(sizes, devices, axes));
  if (iota && !groups.iota && static_cast<int64_t>(devices.size()) > kMaxExpandedDevices) {
    return absl::InvalidArgumentError(absl::StrCat("replica groups: a list of ", devices.size(),
                                                   " transposed devices without an iota form, at most ",
                                                   kMaxExpandedDevices, " are supported"));
  }
  groups.mesh = ToString();
  return groups;
}

std::string Mesh::ToString() const {
  std::string out = "mesh[";
  for (size_t i = 0; i < names.size(); ++i) absl::StrAppend(&out, i ? "," : "", "'", names[i], "'=", sizes[i]);
  out += "]";
  if (iota) {
    absl::StrAppend(&out, ", device_ids=([", absl::StrJoin(iota->reshape_dims, ","), "]");
    if (!iota->transpose_perm.empty()) absl::StrAppend(&out, "T(", absl::StrJoin(iota->transpose_perm, ","), ")");
    out += ")";
  } else if (!devices.empty()) {
    absl::StrAppend(&out, ", device_ids=(", absl::StrJoin(devices, ","), ")");
  }
  return out;
}

std::string Mesh::FormatAxes(const std::vector<MeshAxis>& axes, bool open, absl::string_view between) const {
  std::string out = "{";
  for (size_t i = 0; i < axes.size(); ++i) {
    const MeshAxis& a = axes[i];
    absl::StrAppend(&out, i ? between : "", "'", names[static_cast<size_t>(a.axis)], "'");
    if (a.size != 0) absl::StrAppend(&out, ":(", a.pre_size, ")", a.size);
  }
  return absl::StrCat(out, open ? axes.empty() ? "?" : ", ?" : "", "}");
}

std::string MeshGroups::ToString() const { return absl::StrCat(Mesh::ToString(), " ", FormatAxes(axes, false, ",")); }

std::string MeshShardingText::ToString() const {
  std::string out = absl::StrCat(
      Mesh::ToString(), ", [",
      absl::StrJoin(dimensions, ", ", [&](std::string* s, const Dimension& d) { *s += FormatAxes(d.axes, d.open); }),
      "]");
  if (!replicated.empty()) absl::StrAppend(&out, ", replicated=", FormatAxes(replicated));
  if (!unreduced.empty()) absl::StrAppend(&out, ", unreduced=", FormatAxes(unreduced));
  if (!manual.empty()) absl::StrAppend(&out, ", manual=", FormatAxes(manual));
  return out;
}

namespace {

// Parses what follows the word mesh. Leaves a comma that does not precede device_ids.
absl::Status ParseMeshHead(HloLexer& lexer, Mesh* out) {
  RETURN_IF_ERROR(lexer.Expect("[", "of a mesh"));
  if (!lexer.Take("]")) {
    do {
      ASSIGN_OR_RETURN(std::string name, AxisName(lexer));
      RETURN_IF_ERROR(lexer.Expect("=", "after an axis name"));
      ASSIGN_OR_RETURN(int64_t size, lexer.Int());
      out->names.push_back(std::move(name));
      out->sizes.push_back(size);
    } while (lexer.Take(","));
    RETURN_IF_ERROR(lexer.Expect("]", "of a mesh"));
  }
  const size_t at = lexer.position();
  if (!lexer.Take(",")) return absl::OkStatus();
  if (!lexer.TakeWord("device_ids")) {
    lexer.set_position(at);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(lexer.Expect("=", "after device_ids"));
  RETURN_IF_ERROR(lexer.Expect("(", "of device_ids"));
  ASSIGN_OR_RETURN(out->devices, DeviceIds(lexer, &out->iota));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MeshAxis>> ParseAxisList(HloLexer& lexer, const Mesh& mesh, bool* open) {
  std::vector<MeshAxis> axes;
  RETURN_IF_ERROR(lexer.Expect("{", "of mesh axes"));
  if (lexer.Take("}")) return axes;
  do {
    if (open != nullptr && lexer.Take("?")) {
      *open = true;
      continue;
    }
    ASSIGN_OR_RETURN(std::string name, AxisName(lexer));
    MeshAxis axis;
    const auto it = std::find(mesh.names.begin(), mesh.names.end(), name);
    if (it == mesh.names.end()) return lexer.Error(absl::StrCat("no mesh axis '", name, "'"));
    axis.axis = it - mesh.names.begin();
    if (lexer.Take(":")) {
      RETURN_IF_ERROR(lexer.Expect("(", "of a part of an axis"));
      ASSIGN_OR_RETURN(axis.pre_size, lexer.Int());
      RETURN_IF_ERROR(lexer.Expect(")", "of a part of an axis"));
      ASSIGN_OR_RETURN(axis.size, lexer.Int());
      if (axis.pre_size < 1 || axis.size < 1 || axis.pre_size > kMaxDevices || axis.size > kMaxDevices) {
        return lexer.Error("bad part of a mesh axis");
      }
    }
    axes.push_back(axis);
  } while (lexer.Take(","));
  RETURN_IF_ERROR(lexer.Expect("}", "of mesh axes"));
  return axes;
}

}  // namespace

absl::StatusOr<MeshGroups> ParseMesh(HloLexer& lexer) {
  MeshGroups out;
  RETURN_IF_ERROR(ParseMeshHead(lexer, &out));
  ASSIGN_OR_RETURN(out.axes, ParseAxisList(lexer, out, nullptr));
  return out;
}

absl::StatusOr<MeshShardingText> ParseMeshSharding(absl::string_view text) {
  HloLexer lexer(text);
  MeshShardingText out;
  if (!lexer.TakeWord("mesh")) return lexer.Error("expected a mesh");
  RETURN_IF_ERROR(ParseMeshHead(lexer, &out));
  RETURN_IF_ERROR(lexer.Expect(",", "after a mesh"));
  RETURN_IF_ERROR(lexer.Expect("[", "of dimensions"));
  if (!lexer.Take("]")) {
    do {
      MeshShardingText::Dimension d;
      ASSIGN_OR_RETURN(d.axes, ParseAxisList(lexer, out, &d.open));
      out.dimensions.push_back(std::move(d));
    } while (lexer.Take(","));
    RETURN_IF_ERROR(lexer.Expect("]", "of dimensions"));
  }
  while (lexer.Take(",")) {
    const absl::string_view word = lexer.Name();
    std::vector<MeshAxis>* list = word == "replicated"  ? &out.replicated
                                  : word == "unreduced" ? &out.unreduced
                                  : word == "manual"    ? &out.manual
                                                        : nullptr;
    if (list == nullptr) return lexer.Error(absl::StrCat("unknown list of mesh axes '", word, "'"));
    RETURN_IF_ERROR(lexer.Expect("=", "after a list of mesh axes"));
    ASSIGN_OR_RETURN(*list, ParseAxisList(lexer, out, nullptr));
  }
  if (!lexer.AtEnd()) return lexer.Error("text after a sharding");
  return out;
}

absl::StatusOr<ReplicaGroups> ParseMeshGroups(HloLexer& lexer) {
  const size_t at = lexer.position();
  ASSIGN_OR_RETURN(MeshGroups mesh, ParseMesh(lexer));
  absl::StatusOr<ReplicaGroups> groups = mesh.ComputeGroups();
  if (!groups.ok()) return lexer.Locate(at, groups.status());
  return groups;
}

}  // namespace backplane
