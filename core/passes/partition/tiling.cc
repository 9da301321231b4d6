#include "core/passes/partition/tiling.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"

namespace backplane {

Tiling Tiling::Whole(int64_t rank, int64_t partitions) {
  Tiling t;
  t.tiles_.assign(static_cast<size_t>(rank), 1);
  t.at_.assign(static_cast<size_t>(partitions), Ints(static_cast<size_t>(rank), 0));
  return t;
}

absl::StatusOr<Tiling> Tiling::Of(const Sharding& sharding, const Shape& shape, int64_t partitions) {
  const int64_t rank = shape.IsArray() ? shape.rank() : 0;
  Tiling t = Whole(rank, partitions);
  if (partitions == 1) return t;  // whatever it was written for
  auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("sharding ", sharding.ToString(), " of ", shape.ToString(), " on ",
                                                   partitions, " partitions: ", why));
  };
  if (sharding.type == Sharding::Type::kUnreduced) return absl::UnimplementedError(bad("unreduced values").message());
  if (sharding.type == Sharding::Type::kTuple) return bad("a tuple's, expected an array's");
  if (sharding.type != Sharding::Type::kOther) return t;
  for (Sharding::Type s : sharding.last_tile_dims) {
    if (s == Sharding::Type::kUnreduced) return absl::UnimplementedError(bad("unreduced values").message());
  }
  const Ints devices = sharding.DeviceList();
  if (static_cast<int64_t>(devices.size()) != partitions)
    return bad(absl::StrCat("names ", devices.size(), " devices"));
  if (static_cast<int64_t>(sharding.tile_dims.size()) < rank) return bad("has too few dimensions");
  int64_t copies = 1;
  for (size_t d = 0; d < sharding.tile_dims.size(); ++d) {
    if (static_cast<int64_t>(d) < rank)
      t.tiles_[d] = sharding.tile_dims[d];
    else
      copies *= sharding.tile_dims[d];
  }
  std::vector<bool> seen(devices.size(), false);
  for (size_t i = 0; i < devices.size(); ++i) {
    const int64_t device = devices[i];
    if (device < 0 || device >= partitions || seen[static_cast<size_t>(device)])
      return bad("names a device twice or none");
    seen[static_cast<size_t>(device)] = true;
    int64_t tile = static_cast<int64_t>(i) / copies;
    for (int64_t d = rank; d-- > 0;) {
      t.at_[static_cast<size_t>(device)][static_cast<size_t>(d)] = tile % t.tiles_[static_cast<size_t>(d)];
      tile /= t.tiles_[static_cast<size_t>(d)];
    }
  }
  return t;
}

bool Tiling::HasParts(const Sharding& sharding) {
  return sharding.type == Sharding::Type::kUnreduced ||
         std::find(sharding.last_tile_dims.begin(), sharding.last_tile_dims.end(), Sharding::Type::kUnreduced) !=
             sharding.last_tile_dims.end();
}

absl::StatusOr<Tiling> Tiling::PartsOf(const Sharding& sharding, const Shape& shape, int64_t partitions) {
  if (partitions == 1) return Whole(shape.rank() + 1, 1);
  Sharding plain = sharding;
  Ints from(static_cast<size_t>(shape.rank()));
  std::iota(from.begin(), from.end(), 0);
  if (sharding.type == Sharding::Type::kUnreduced) {  // over all partitions
    plain = Sharding();
    plain.type = Sharding::Type::kOther;
    plain.tile_dims.assign(from.size(), 1);
    plain.tile_dims.push_back(partitions);
    plain.iota = IotaDevices{plain.tile_dims, {partitions}, {}};
    from.push_back(shape.rank());
  } else {
    const auto at =
        std::find(sharding.last_tile_dims.begin(), sharding.last_tile_dims.end(), Sharding::Type::kUnreduced);
    if (at == sharding.last_tile_dims.end()) return absl::InternalError("a sharding without partial sums");
    from.push_back(shape.rank() + (at - sharding.last_tile_dims.begin()));
  }
  plain.last_tile_dims.clear();
  // Subgroups count as dimensions of one element each.
  DimVector dims = shape.dimensions();
  dims.resize(plain.tile_dims.size(), 1);
  absl::StatusOr<Tiling> all = Of(plain, Shape(shape.element_type(), dims), partitions);
  if (!all.ok()) return all.status();
  if (from.back() >= all->rank())
    return absl::InvalidArgumentError(absl::StrCat("sharding ", sharding.ToString(), " of ", shape.ToString()));
  return all->Select(from);
}

Tiling Tiling::WithFamilies(const Ints& of_partition) const {
  Tiling t = *this;
  t.families_ = of_partition;
  return t;
}

int64_t Tiling::FamilyCount() const {
  return families_.empty() ? 1 : static_cast<int64_t>(std::set<int64_t>(families_.begin(), families_.end()).size());
}

bool Tiling::SplitLike(int64_t dim, const Tiling& other, int64_t k) {
  if (!other.IsTiled(k) || IsTiled(dim)) return false;
  Tiling wider = *this;
  wider.tiles_[static_cast<size_t>(dim)] = other.tiles(k);
  for (size_t p = 0; p < at_.size(); ++p) {
    wider.at_[p][static_cast<size_t>(dim)] = other.at_[p][static_cast<size_t>(k)];
  }
  if (!wider.IsGrid()) return false;
  *this = std::move(wider);
  return true;
}

bool Tiling::Extends(const Tiling& other) const {
  if (other.rank() != rank() || other.families_ != families_) return false;
  for (int64_t d = 0; d < rank(); ++d) {
    if (other.IsTiled(d) && !(Select({d}) == other.Select({d}))) return false;
  }
  return true;
}

int64_t Tiling::TileCount() const {
  int64_t n = 1;
  for (int64_t t : tiles_) n *= t;
  return n;
}

bool Tiling::IsWhole() const {
  return std::all_of(tiles_.begin(), tiles_.end(), [](int64_t n) { return n == 1; });
}

bool Tiling::IsGrid() const {
  std::map<std::pair<int64_t, Ints>, int64_t> holders;
  for (size_t p = 0; p < at_.size(); ++p) ++holders[{FamilyOf(p), at_[p]}];
  int64_t product = FamilyCount();
  for (int64_t n : tiles_) {
    product *= n;
    if (product > partitions()) return false;
  }
  if (static_cast<int64_t>(holders.size()) != product) return false;
  const int64_t copies = partitions() / product;
  return std::all_of(holders.begin(), holders.end(), [&](const auto& h) { return h.second == copies; });
}

bool Tiling::Divides(const Shape& shape) const {
  for (int64_t d = 0; d < rank(); ++d) {
    if (shape.dimensions(d) % tiles_[static_cast<size_t>(d)] != 0) return false;
  }
  return true;
}

Tiling Tiling::EvenPart(const Shape& shape) const {
  Tiling t = *this;
  for (int64_t d = 0; d < rank(); ++d) {
    if (shape.dimensions(d) % tiles(d) != 0) t = t.Without(d);
  }
  return t;
}

Shape Tiling::ShardOf(const Shape& whole) const {
  DimVector dims = whole.dimensions();
  for (int64_t d = 0; d < rank(); ++d) {
    int64_t& n = dims[static_cast<size_t>(d)];
    n = (n + tiles(d) - 1) / tiles(d);
  }
  return Shape(whole.element_type(), dims);
}

Shape Tiling::WholeOf(const Shape& shard) const {
  DimVector dims = shard.dimensions();
  for (int64_t d = 0; d < rank(); ++d) dims[static_cast<size_t>(d)] *= tiles_[static_cast<size_t>(d)];
  return Shape(shard.element_type(), dims);
}

Tiling Tiling::Select(absl::Span<const int64_t> from) const {
  Tiling t = Whole(static_cast<int64_t>(from.size()), partitions()).WithFamilies(families_);
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] < 0) continue;
    t.tiles_[d] = tiles_[static_cast<size_t>(from[d])];
    for (size_t p = 0; p < at_.size(); ++p) t.at_[p][d] = at_[p][static_cast<size_t>(from[d])];
  }
  return t;
}

Tiling Tiling::Without(int64_t dim) const {
  Ints from(tiles_.size());
  std::iota(from.begin(), from.end(), 0);
  from[static_cast<size_t>(dim)] = -1;
  return Select(from);
}

Tiling Tiling::Join(const Tiling& other) const {
  Tiling t = *this;
  t.tiles_.insert(t.tiles_.end(), other.tiles_.begin(), other.tiles_.end());
  for (size_t p = 0; p < at_.size(); ++p) t.at_[p].insert(t.at_[p].end(), other.at_[p].begin(), other.at_[p].end());
  return t;
}

std::vector<Ints> Tiling::GroupsAlong(absl::Span<const int64_t> dims) const {
  // Partitions that agree elsewhere form a family; those of a family that hold the same tiles are copies, and the k-th
  // copies of all tiles are a group.
  std::map<std::pair<int64_t, Ints>, std::map<Ints, Ints>> families;
  for (size_t p = 0; p < at_.size(); ++p) {
    Ints rest = at_[p], along;
    for (int64_t d : dims) {
      along.push_back(at_[p][static_cast<size_t>(d)]);
      rest[static_cast<size_t>(d)] = 0;
    }
    families[{FamilyOf(p), std::move(rest)}][along].push_back(static_cast<int64_t>(p));
  }
  std::vector<Ints> groups;
  for (const auto& [rest, tiles] : families) {
    for (size_t k = 0; k < tiles.begin()->second.size(); ++k) {
      Ints group;
      for (const auto& [along, copies] : tiles) group.push_back(copies[k]);
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

Sharding Tiling::ToSharding() const {
  Sharding s;
  if (IsWhole()) return s;
  s.type = Sharding::Type::kOther;
  s.tile_dims = tiles_;
  int64_t product = 1;
  for (int64_t n : tiles_) product *= n;
  if (product < partitions()) {
    s.tile_dims.push_back(partitions() / product);
    s.replicate_on_last_tile_dim = true;
  }
  std::map<Ints, Ints> holders;  // ordered as tiles are
  for (size_t p = 0; p < at_.size(); ++p) holders[at_[p]].push_back(static_cast<int64_t>(p));
  for (const auto& [tile, partitions] : holders)
    s.devices.insert(s.devices.end(), partitions.begin(), partitions.end());
  bool in_order = true;
  for (size_t i = 0; i < s.devices.size(); ++i) in_order &= s.devices[i] == static_cast<int64_t>(i);
  if (in_order) {
    s.iota = IotaDevices{s.tile_dims, {partitions()}, {}};
    s.devices.clear();
  }
  return s;
}

}  // namespace backplane
