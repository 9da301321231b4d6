// The intervals of node numbers that the groups of a graph span.
#ifndef BACKPLANE_SDK_COMPILER_FUSION_GROUP_SPANS_H_
#define BACKPLANE_SDK_COMPILER_FUSION_GROUP_SPANS_H_

#include <algorithm>
#include <vector>

namespace backplane::compiler {

// Finds, for a node, the largest last member of any group whose interval contains the node. Implemented as a segment
// tree of maxima: both operations take logarithmic time. Groups can be added and grow, but not shrink.
class GroupSpans {
 public:
  explicit GroupSpans(int nodes) {
    while (leaves_ < nodes) leaves_ *= 2;
    last_.assign(static_cast<size_t>(2 * leaves_), -1);
  }

  // Adds a group by its first and its last member.
  void Add(int first, int last) {
    for (int begin = first + leaves_, end = last + leaves_ + 1; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) RaiseLast(begin++, last);
      if (end % 2 == 1) RaiseLast(--end, last);
    }
  }

  // Returns the largest last member of the groups whose intervals contain the node; the node itself if there is none.
  int FindLast(int node) const {
    int last = node;
    for (int k = node + leaves_; k > 0; k /= 2) last = std::max(last, last_[static_cast<size_t>(k)]);
    return last;
  }

 private:
  void RaiseLast(int k, int last) { last_[static_cast<size_t>(k)] = std::max(last_[static_cast<size_t>(k)], last); }
  int leaves_ = 1;         // a value of an inner node applies to all leaves below it
  std::vector<int> last_;  // by position in the tree; 1 is its root
};

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_FUSION_GROUP_SPANS_H_
