-- Every item with its execution, in its last state.
select * from chaos.found
