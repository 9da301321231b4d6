// The users of a value, as a list that runs through the operands that name it. Entering and leaving it take constant
// time whatever its length, and its order is that in which the uses were made.
#ifndef BACKPLANE_CORE_IR_USERS_H_
#define BACKPLANE_CORE_IR_USERS_H_

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace backplane {

class Instruction;

// One operand of an instruction, kept by that instruction. Operands of one instruction that name the same value form a
// ring by their numbers; one of the ring is listed among the value's users.
struct Use {
  Instruction* user = nullptr;
  Use *previous = nullptr, *next = nullptr;  // of the value's list, when listed
  int32_t ring_previous = 0, ring_next = 0;  // its own number: alone
  bool listed = false;
};

// A view of a list of users; it stays valid until one enters or leaves. Each user once.
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
  Instruction* operator[](size_t k) const {  // in k steps
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
