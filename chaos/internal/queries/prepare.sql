prepare transaction 'chaos'
