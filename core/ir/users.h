// The users of a value: an intrusive list through the operands that use it. Insertion and removal take constant time.
// The list is ordered by insertion.
#ifndef BACKPLANE_CORE_IR_USERS_H_
#define BACKPLANE_CORE_IR_USERS_H_

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace backplane {

class Instruction;

// One operand of an instruction, stored in that instruction. Operands of one instruction that use the same value form a
// ring by their indices, and one of them is in the user list of the value.
struct Use {
  Instruction* user = nullptr;
  Use *previous = nullptr, *next = nullptr;  // in the user list of the value
  int32_t ring_previous = 0, ring_next = 0;  // its own index if there is no other
  bool listed = false;
};

// A view of a user list. It contains each user once. Invalidated by insertion and removal.
class Users {
 public:
  class iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Instruction*;
    using difference_type = std::ptrdiff_t;
    using pointer = Instruction* const*;
    using reference = Instruction* const&;
    iterator() = default;
    explicit iterator(const Use* use) : use_(use) {}
    reference operator*() const { return use_->user; }
    pointer operator->() const { return &use_->user; }
    iterator& operator++() {
      use_ = use_->next;
      return *this;
    }
    iterator operator++(int) {
      iterator before = *this;
      use_ = use_->next;
      return before;
    }
    bool operator==(const iterator&) const = default;

   private:
    const Use* use_ = nullptr;
  };
  using const_iterator = iterator;
  using value_type = Instruction*;
  using reference = Instruction* const&;
  using const_reference = Instruction* const&;

  Users(const Use* first, size_t size) : first_(first), size_(size) {}
  iterator begin() const { return iterator(first_); }
  iterator end() const { return iterator(); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Instruction* front() const { return first_->user; }
  Instruction* operator[](size_t k) const {  // takes k steps
    const Use* use = first_;
    while (k-- > 0) use = use->next;
    return use->user;
  }

 private:
  const Use* first_;
  size_t size_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_IR_USERS_H_
