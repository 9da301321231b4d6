// Replica groups written as axes of a device mesh, made into lists of devices.
//
// Text: mesh['a'=4,'b'=2], device_ids=([4,2]T(1,0)) {'a','b':(1)2}. The devices, 0, 1, 2... unless device_ids says
// otherwise, fill the mesh row-major. A group runs over the named axes, the first of them slowest; the groups follow
// one another in the order of the other axes. 'b':(2)4 is a part of an axis: 4 steps, each of what is left after the 2
// * 4 outermost ones are taken away.
#ifndef BACKPLANE_CORE_TEXT_MESH_GROUPS_H_
#define BACKPLANE_CORE_TEXT_MESH_GROUPS_H_

#include <optional>
#include <string>
#include <vector>

#include "core/text/hlo_lexer.h"

namespace backplane {

struct MeshAxis {
  int64_t axis = 0;                // index into the mesh's sizes
  int64_t pre_size = 1, size = 0;  // a part of the axis; size 0: the whole of it
};

// `devices` empty: 0, 1, 2... Errors are InvalidArgument.
absl::StatusOr<ReplicaGroups> ReplicaGroupsOfMesh(const Ints& mesh, const Ints& devices,
                                                  const std::vector<MeshAxis>& axes);

// A mesh as the text names it: ['a'=4,'b'=2], device_ids=([4,2]T(1,0)).
struct Mesh {
  std::vector<std::string> names;
  Ints sizes;
  std::optional<IotaDevices> iota;  // of the devices, where the text has it
  Ints devices;                     // listed, or what the iota says; empty: 0, 1, 2...
  std::string ToString() const;     // with the word mesh in front
  // {'a', 'b':(1)2} or {'a', ?}, as XLA writes the axes of a sharding; in replica groups it has no blanks between them.
  std::string AxesText(const std::vector<MeshAxis>& axes, bool open = false, absl::string_view between = ", ") const;
};
struct MeshGroups : Mesh {
  std::vector<MeshAxis> axes;
  std::string ToString() const;  // mesh['a'=4,'b'=2] {'a'}
};
absl::StatusOr<MeshGroups> ParseMesh(HloLexer& lexer);  // after the word "mesh"

// A sharding by mesh axes, as core/ops keeps it in text: mesh[..], [{'a'}, {'b', ?}], replicated={'c'}.
struct MeshShardingText : Mesh {
  struct Dimension {
    std::vector<MeshAxis> axes;
    bool open = false;
  };
  std::vector<Dimension> dimensions;
  std::vector<MeshAxis> replicated, unreduced, manual;
  std::string ToString() const;
};
absl::StatusOr<MeshShardingText> ParseMeshSharding(absl::string_view text);  // the whole text

// The groups a mesh stands for, with its text. After the word "mesh".
absl::StatusOr<ReplicaGroups> ParseMeshGroups(HloLexer& lexer);

}  // namespace backplane

#endif  // BACKPLANE_CORE_TEXT_MESH_GROUPS_H_
