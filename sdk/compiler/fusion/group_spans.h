// Which groups of a numbered graph are under way at a node.
#ifndef BACKPLANE_SDK_COMPILER_FUSION_GROUP_SPANS_H_
#define BACKPLANE_SDK_COMPILER_FUSION_GROUP_SPANS_H_

#include <algorithm>
#include <vector>

namespace backplane::compiler {

// For each node the largest last member of any group that has begun by it and has not ended before it. A tree of
// maxima: both operations take logarithmic time. Groups can be added and grow, but not shrink.
class GroupSpans {
 public:
  explicit GroupSpans(int nodes) {
    while (leaves_ < nodes) leaves_ *= 2;
    last_.assign(static_cast<size_t>(2 * leaves_), -1);
  }

  // Adds a group by its first and its last member.
  void Add(int first, int last) {
    for (int begin = first + leaves_, end = last + leaves_ + 1; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) Raise(begin++, last);
      if (end % 2 == 1) Raise(--end, last);
    }
  }

  // The largest last member of the groups under way at the node; the node itself where there is none.
  int LastOf(int node) const {
    int last = node;
    for (int k = node + leaves_; k > 0; k /= 2) last = std::max(last, last_[static_cast<size_t>(k)]);
    return last;
  }

 private:
  void Raise(int k, int last) { last_[static_cast<size_t>(k)] = std::max(last_[static_cast<size_t>(k)], last); }
  int leaves_ = 1;         // behind as many inner nodes: what holds for one holds for all leaves below it
  std::vector<int> last_;  // by position in the tree; 1 is its root
};

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_FUSION_GROUP_SPANS_H_
