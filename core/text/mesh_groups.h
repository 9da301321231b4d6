// Replica groups given as axes of a device mesh, and their expansion to lists of devices.
//
// Text: mesh['a'=4,'b'=2], device_ids=([4,2]T(1,0)) {'a','b':(1)2}. The devices fill the mesh in row-major order: 0, 1,
// 2... unless device_ids is given. A group covers the named axes, the first one varying slowest. The groups are ordered
// by the other axes. 'b':(2)4 is a sub-axis: 4 steps over what remains of the axis inside its 2 outermost steps.
#ifndef BACKPLANE_CORE_TEXT_MESH_GROUPS_H_
#define BACKPLANE_CORE_TEXT_MESH_GROUPS_H_

#include <optional>
#include <string>
#include <vector>

#include "core/text/hlo_lexer.h"

namespace backplane {

struct MeshAxis {
  int64_t axis = 0;                // index into the sizes of the mesh
  int64_t pre_size = 1, size = 0;  // a sub-axis; size 0: the full axis
};

// Whether a mesh may have these devices, which must be Valid(). The devices of a transposed mesh are listed for each
// instruction, so their number is limited.
bool FitsMesh(const IotaDevices& iota);

// `devices` empty: 0, 1, 2... The groups of a large mesh are in iota form if they have one. Errors are InvalidArgument.
absl::StatusOr<ReplicaGroups> ComputeReplicaGroupsOfMesh(const Ints& mesh, const Ints& devices,
                                                         const std::vector<MeshAxis>& axes);

// A mesh as spelled in text: ['a'=4,'b'=2], device_ids=([4,2]T(1,0)).
struct Mesh {
  std::vector<std::string> names;
  Ints sizes;
  std::optional<IotaDevices> iota;  // device ids in iota form, if the text uses it
  Ints devices;                     // listed or expanded; empty: 0, 1, 2...
  std::string ToString() const;     // includes the word mesh
  // Prints {'a', 'b':(1)2} or {'a', ?}, as XLA spells the axes of a sharding. In replica groups there are no blanks.
  std::string FormatAxes(const std::vector<MeshAxis>& axes, bool open = false, absl::string_view between = ", ") const;
};
struct MeshGroups : Mesh {
  std::vector<MeshAxis> axes;
  std::string ToString() const;  // mesh['a'=4,'b'=2] {'a'}
  // Returns the groups with their text. Returns InvalidArgument for long lists that the text only implies and that have
  // no iota form.
  absl::StatusOr<ReplicaGroups> ComputeGroups() const;
};
absl::StatusOr<MeshGroups> ParseMesh(HloLexer& lexer);  // after the word "mesh"

// A sharding over mesh axes, which core/ops stores as text: mesh[..], [{'a'}, {'b', ?}], replicated={'c'}.
struct MeshShardingText : Mesh {
  struct Dimension {
    std::vector<MeshAxis> axes;
    bool open = false;
  };
  std::vector<Dimension> dimensions;
  std::vector<MeshAxis> replicated, unreduced, manual;
  std::string ToString() const;
};
absl::StatusOr<MeshShardingText> ParseMeshSharding(absl::string_view text);  // consumes the whole text

// Returns the groups of a mesh together with its text. The lexer is behind the word mesh.
absl::StatusOr<ReplicaGroups> ParseMeshGroups(HloLexer& lexer);

}  // namespace backplane

#endif  // BACKPLANE_CORE_TEXT_MESH_GROUPS_H_
