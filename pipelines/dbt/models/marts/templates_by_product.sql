{{ config(enabled='templates' in var('letters_parts')) }}

select
    product_id,
    product,
    product_type,
    paper_size,
    postage_type,
    count(*) as templates,
    count(distinct creator_id) as creators
from {{ ref('stg_templates') }}
group by 1, 2, 3, 4, 5
